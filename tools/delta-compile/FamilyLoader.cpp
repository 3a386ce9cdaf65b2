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

/// The installed text whose family serves the model.
static OwningOpRef<ModuleOp> findFamily(MLIRContext &context,
                                        const Model &model,
                                        const std::string &modelFolder,
                                        fs::path &path) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(modelFolder, error))
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
  std::string list;
  for (const std::string &type : known)
    list += (list.empty() ? "" : ", ") + type;
  std::string what = model.modelType.empty()
                         ? "no model_type and no known architecture"
                         : "model_type \"" + model.modelType + "\"";
  emitError(FileLineColLoc::get(&context, model.configPath, 1, 1))
      << "config has " << what << "; known types are " << list
      << "; pass another family with --family file.mlir";
  return {};
}

static DictionaryAttr geometryAttr(Builder &builder,
                                   const TrainerOptions &options) {
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
  return builder.getDictionaryAttr(attrs);
}

OwningOpRef<ModuleOp> delta::loadFamily(MLIRContext &context,
                                        const Model &model,
                                        const std::string &familyPath,
                                        const std::string &modelFolder,
                                        const std::string &keys) {
  fs::path path = familyPath;
  OwningOpRef<ModuleOp> module =
      familyPath.empty() ? findFamily(context, model, modelFolder, path)
                         : parseFamilyFile(context, path);
  if (!module)
    return {};
  auto families = llvm::to_vector(module->getOps<FamilyOp>());
  if (families.size() != 1) {
    emitError(FileLineColLoc::get(&context, path.string(), 1, 1))
        << "file has " << families.size() << " families, required one";
    return {};
  }
  Importer importer(context, *module, modelFolder);
  if (failed(importer.follow(*module, path.parent_path())))
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
  if (model.destination)
    (*module)->setAttr("delta.destination",
                       geometryAttr(builder, *model.destination));
  if (!keys.empty())
    (*module)->setAttr("delta.keys", builder.getStringAttr(keys));
  return module;
}
