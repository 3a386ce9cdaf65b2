//===- FamilyLoader.cpp - Family texts and their imports ------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FamilyLoader.h"

#include "mlir/IR/Builders.h"
#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <filesystem>
#include <set>

using namespace delta;
using namespace mlir;
namespace fs = std::filesystem;

/// Parses a family text. File names in locations are kept short: no path
/// enters any output.
static OwningOpRef<ModuleOp> parseFamilyFile(MLIRContext &context,
                                             const fs::path &path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    emitError(UnknownLoc::get(&context))
        << "cannot read the family '" << path.string() << "'";
    return {};
  }
  ParserConfig config(&context);
  return parseSourceFile<ModuleOp>(path.string(), config);
}

namespace {
/// Follows imports into one module.
class Importer {
public:
  Importer(MLIRContext &context, ModuleOp into, std::string modelFolder)
      : context(context), into(into), modelFolder(std::move(modelFolder)) {}

  LogicalResult follow(ModuleOp module, const fs::path &folder) {
    auto imports = llvm::to_vector(module.getOps<ImportOp>());
    for (ImportOp import : imports) {
      fs::path path = folder / import.getFile().str();
      std::error_code error;
      if (!fs::exists(path, error))
        path = fs::path(modelFolder) / import.getFile().str();
      if (!fs::exists(path, error))
        return import.emitOpError("no file \"")
               << import.getFile()
               << "\" beside this one or in the installed "
                  "models folder";
      if (!read.insert(fs::weakly_canonical(path, error).string()).second)
        continue;
      OwningOpRef<ModuleOp> other = parseFamilyFile(context, path);
      if (!other || failed(follow(*other, path.parent_path())))
        return failure();
      for (auto block : llvm::make_early_inc_range(other->getOps<BlockOp>())) {
        if (Operation *known = into.lookupSymbol(block.getSymName())) {
          InFlightDiagnostic diagnostic = block.emitOpError("block '@")
                                          << block.getSymName()
                                          << "' is defined already";
          diagnostic.attachNote(known->getLoc()) << "the other one is here";
          return diagnostic;
        }
        block->moveBefore(into.getBody(), into.getBody()->end());
      }
    }
    return success();
  }

private:
  MLIRContext &context;
  ModuleOp into;
  std::string modelFolder;
  std::set<std::string> read;
};
} // namespace

static bool serves(FamilyOp family, const Model &model) {
  auto lists = [](ArrayAttr list, const std::string &name) {
    return llvm::any_of(list.getAsRange<StringAttr>(), [&](StringAttr item) {
      return item.getValue() == name;
    });
  };
  if (!model.modelType.empty())
    return lists(family.getModelTypes(), model.modelType);
  return llvm::any_of(model.architectures, [&](const std::string &name) {
    return lists(family.getArchitectures(), name);
  });
}

/// The installed text whose family serves the model; of an engine's folder, its
/// layout.
static OwningOpRef<ModuleOp> findFamily(MLIRContext &context,
                                        const Model &model,
                                        const std::string &folder,
                                        bool isLayout, fs::path &path) {
  std::vector<fs::path> files;
  std::error_code failure;
  for (const auto &entry : fs::directory_iterator(folder, failure))
    if (entry.path().extension() == ".mlir")
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::set<std::string> known;
  for (const fs::path &file : files) {
    OwningOpRef<ModuleOp> module = parseFamilyFile(context, file);
    if (!module)
      return {};
    for (auto family : module->getOps<FamilyOp>()) {
      if (serves(family, model)) {
        path = file;
        return module;
      }
      for (StringAttr type : family.getModelTypes().getAsRange<StringAttr>())
        known.insert(type.str());
    }
  }
  path.clear();
  std::string list;
  for (const std::string &type : known)
    list += (list.empty() ? "" : ", ") + type;
  std::string what = model.modelType.empty()
                         ? "no model_type and no known architecture"
                         : "model_type \"" + model.modelType + "\"";
  InFlightDiagnostic error =
      emitError(FileLineColLoc::get(&context, model.configPath, 1, 1))
      << "config has " << what << "; ";
  if (isLayout)
    error << "engine \"" << model.engine->engine << "\" has layouts for "
          << list << "; give another layout with rollout.layout";
  else
    error << "known types are " << list
          << "; pass another family with --family file.mlir";
  return {};
}

/// Reads a family, or finds the one of the model in `folder`, with all that it
/// imports.
static OwningOpRef<ModuleOp>
readFamily(MLIRContext &context, const Model &model, const std::string &given,
           const std::string &folder, const std::string &modelFolder) {
  fs::path path = given;
  OwningOpRef<ModuleOp> module =
      given.empty()
          ? findFamily(context, model, folder, folder != modelFolder, path)
          : parseFamilyFile(context, path);
  if (!module)
    return {};
  int64_t count = std::distance(module->getOps<FamilyOp>().begin(),
                                module->getOps<FamilyOp>().end());
  if (count != 1) {
    emitError(FileLineColLoc::get(&context, path.string(), 1, 1))
        << "file has " << count << " families, required one";
    return {};
  }
  Importer importer(context, *module, modelFolder);
  if (failed(importer.follow(*module, path.parent_path())))
    return {};
  return module;
}

/// Adds the layout of the model's engine to the family's module.
static LogicalResult addLayout(MLIRContext &context, const Model &model,
                               ModuleOp family,
                               const std::string &modelFolder) {
  const EngineOptions &engine = *model.engine;
  OwningOpRef<ModuleOp> module =
      readFamily(context, model, engine.layoutPath,
                 (fs::path(modelFolder) / engine.engine).string(), modelFolder);
  if (!module)
    return failure();
  auto layout = *module->getOps<FamilyOp>().begin();
  auto refuse = [&](const Twine &text) {
    return emitError(layout.getLoc()) << text;
  };
  if (layout.getEngine() != StringRef(engine.engine))
    return refuse("is the layout of " +
                  (layout.getEngine() ? "engine \"" + *layout.getEngine() + "\""
                                      : Twine("no engine")) +
                  ", rollout.engine is \"" + engine.engine + "\"");
  if (!engine.version.empty()) {
    std::string list;
    bool known = false;
    for (StringAttr version :
         layout.getVersionsAttr().getAsRange<StringAttr>()) {
      list += (list.empty() ? "" : ", ") + version.str();
      // "0.33" stands for all of 0.33.x.
      known |= engine.version == version ||
               StringRef(engine.version).starts_with(version.str() + ".");
    }
    if (!known)
      return refuse("holds for versions " + list + " of " + engine.engine +
                    ", rollout.version is \"" + engine.version + "\"");
  }
  // Blocks of one name are the same block, of a file that both import.
  for (Operation &op : llvm::make_early_inc_range(*module->getBody())) {
    auto block = dyn_cast<BlockOp>(op);
    auto known =
        block ? family.lookupSymbol<BlockOp>(block.getSymName()) : BlockOp();
    if (known && known.getLoc() == block.getLoc())
      continue;
    if (known)
      return block.emitOpError("block '@")
             << block.getSymName() << "' is another one in the family";
    if (isa<BlockOp, FamilyOp>(op))
      op.moveBefore(family.getBody(), family.getBody()->end());
  }
  return success();
}

/// What a layout is bound with, beside the axes.
static void addEngine(Builder &builder, const EngineOptions &engine,
                      SmallVectorImpl<NamedAttribute> &attrs) {
  auto add = [&](StringRef name, Attribute value) {
    attrs.push_back(builder.getNamedAttr(name, value));
  };
  add("attention_dp", builder.getI64IntegerAttr(engine.attentionDp));
  add("moe_pad", builder.getI64IntegerAttr(engine.moePad));
  add("w13_order", builder.getStringAttr(engine.w13Order));
  add("fuse_shared_experts",
      builder.getI64IntegerAttr(engine.fuseSharedExperts));
  add("redundant_experts", builder.getI64IntegerAttr(engine.redundantExperts));
  add("expert_placement", builder.getStringAttr(engine.placement));
  if (engine.slots.empty())
    return;
  SmallVector<int64_t> slots;
  for (const std::vector<int64_t> &table : engine.slots)
    slots.append(table.begin(), table.end());
  add("expert_slots", builder.getDenseI64ArrayAttr(slots));
  add("expert_slot_tables", builder.getI64IntegerAttr(engine.slots.size()));
}

static DictionaryAttr geometryAttr(Builder &builder,
                                   const TrainerOptions &options,
                                   const EngineOptions *engine = nullptr) {
  SmallVector<NamedAttribute> attrs;
  auto add = [&](StringRef name, Attribute value) {
    attrs.push_back(builder.getNamedAttr(name, value));
  };
  for (auto [name, size] : std::initializer_list<std::pair<StringRef, int64_t>>{
           {"tp", options.tp},
           {"cp", options.cp},
           {"dp", options.dp},
           {"ep", options.ep},
           {"etp", options.etp},
           {"edp", options.edp},
           {"pp", options.pp},
           {"vpp", options.vpp},
           {"vocab_multiple", options.vocabMultiple},
           {"scores", options.scores},
           {"mtp_layers", options.mtpLayers.value_or(-1)}})
    add(name, builder.getI64IntegerAttr(size));
  add("dtype", builder.getStringAttr(options.dtype));
  add("experts", builder.getStringAttr(options.experts));
  if (options.accountForEmbedding)
    add("account_for_embedding", builder.getBoolAttr(true));
  if (options.accountForLoss)
    add("account_for_loss", builder.getBoolAttr(true));
  if (!options.layoutPattern.empty())
    add("pp_layout", builder.getStringAttr(options.layoutPattern));
  if (!options.stageLayers.empty())
    add("pp_layout", builder.getI64ArrayAttr(options.stageLayers));
  if (!options.chunkLayers.empty()) {
    SmallVector<Attribute> stages;
    for (const std::vector<int64_t> &stage : options.chunkLayers)
      stages.push_back(builder.getI64ArrayAttr(stage));
    add("pp_layout", builder.getArrayAttr(stages));
  }
  if (engine)
    addEngine(builder, *engine, attrs);
  return builder.getDictionaryAttr(attrs);
}

OwningOpRef<ModuleOp> delta::loadFamily(MLIRContext &context,
                                        const Model &model,
                                        const std::string &familyPath,
                                        const std::string &modelFolder,
                                        const std::string &keys) {
  OwningOpRef<ModuleOp> module =
      readFamily(context, model, familyPath, modelFolder, modelFolder);
  if (!module)
    return {};
  auto family = *module->getOps<FamilyOp>().begin();
  if (family.getEngine()) {
    emitError(family.getLoc())
        << "is the layout of engine \"" << *family.getEngine()
        << "\", required the family of a trainer";
    return {};
  }
  if (model.engine && failed(addLayout(context, model, *module, modelFolder)))
    return {};

  Builder builder(&context);
  (*module)->setAttr("delta.config",
                     builder.getStringAttr(model.config.dump()));
  SmallVector<NamedAttribute> places;
  for (const auto &[key, place] : model.configPlaces)
    if (!key.empty())
      places.push_back(builder.getNamedAttr(
          key, LocationAttr(FileLineColLoc::get(&context, model.configPath,
                                                place.first, place.second))));
  (*module)->setAttr("delta.config_places", builder.getDictionaryAttr(places));
  (*module)->setAttr("delta.source", geometryAttr(builder, model.trainer));
  if (model.engine)
    (*module)->setAttr(
        "delta.destination",
        geometryAttr(builder, model.engine->mesh, &*model.engine));
  else if (model.destination)
    (*module)->setAttr("delta.destination",
                       geometryAttr(builder, *model.destination));
  if (!keys.empty())
    (*module)->setAttr("delta.keys", builder.getStringAttr(keys));
  return module;
}
