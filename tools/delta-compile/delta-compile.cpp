//===- delta-compile.cpp - model.json to a plan ---------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Drops.h"
#include "FamilyLoader.h"
#include "KeyList.h"
#include "Lower.h"
#include "Proof.h"
#include "TableMap.h"

#include "codegen/CompilePlan.h"
#include "codegen/Emit.h"
#include "codegen/Tables.h"
#include "passes/Classes.h"
#include "passes/Passes.h"
#include "passes/Pipeline.h"
#include "tools/reference/CrossCheck.h"
#include "tools/reference/NanProbe.h"
#include "tools/reference/SampleCheck.h"
#include "tools/report/Traffic.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

#include <new>
#include <set>
#include <stdexcept>

using namespace delta;
using namespace mlir;

#ifndef DELTA_VERSION
#error "the build gives the version"
#endif

//===----------------------------------------------------------------------===//
// Command line
//===----------------------------------------------------------------------===//

namespace {
enum class Emit { Import, Reference, Maps, Proof, Cuda, Host, So };
enum class Target { Host, Cuda };
enum class CrossCheck { Full, Sample, Off };

namespace cl = llvm::cl;

cl::OptionCategory category("delta-compile options");

cl::opt<std::string> input(cl::Positional, cl::Required, cl::desc("model.json"),
                           cl::cat(category));
cl::opt<std::string> output("o", cl::desc("Output file; - for the terminal"),
                            cl::value_desc("file"), cl::cat(category));
cl::opt<Emit> emit(
    "emit", cl::desc("What to write"), cl::init(Emit::So),
    cl::values(
        clEnumValN(Emit::Import, "import", "the bound family, all defaults"),
        clEnumValN(Emit::Reference, "reference",
                   "the reference program, for delta-run and delta-check"),
        clEnumValN(Emit::Maps, "maps", "the proved maps and routes"),
        clEnumValN(Emit::Proof, "proof", "the certificate, for delta-check"),
        clEnumValN(Emit::Cuda, "cuda", "CUDA text"),
        clEnumValN(Emit::Host, "host", "host C++ text"),
        clEnumValN(Emit::So, "so", "the plan (default)")),
    cl::cat(category));
cl::opt<Target> target(
    "target", cl::desc("Where the plan runs"), cl::init(Target::Host),
    cl::values(
        clEnumValN(Target::Host, "host", "memory of the host (default)"),
        clEnumValN(
            Target::Cuda, "cuda",
            "GPUs, from the same tables; needs nvcc, or the NVRTC library")),
    cl::cat(category));
cl::list<std::string> architectureNames(
    "arch", cl::CommaSeparated, cl::value_desc("sm_90,..."),
    cl::desc("GPUs to compile for, implies --target=cuda; default: sm_80, "
             "sm_90, sm_100. Code for sm_80 also runs on sm_86 and sm_89, and "
             "so on"),
    cl::cat(category));
cl::opt<std::string> family("family", cl::value_desc("file.mlir"),
                            cl::desc("Family text to use"), cl::cat(category));
cl::opt<std::string> keyList(
    "keys", cl::value_desc("file.json"),
    cl::desc("Key list instead of the model's checkpoint, {name: {\"shape\", "
             "\"dtype\"}}: chooses among a family's alternatives and checks "
             "nothing"),
    cl::cat(category));
cl::opt<CrossCheck>
    crossCheckMode("cross-check",
                   cl::desc("Compare the maps with the interpreter"),
                   cl::init(CrossCheck::Sample),
                   cl::values(clEnumValN(CrossCheck::Full, "full",
                                         "every element; for small models"),
                              clEnumValN(CrossCheck::Sample, "sample",
                                         "some of every class (default)"),
                              clEnumValN(CrossCheck::Off, "off", "do not")),
                   cl::cat(category));
cl::opt<std::string> reportPage(
    "report", cl::value_desc("page.html"),
    cl::desc("Page that shows the maps, written when all else succeeded"),
    cl::cat(category));

/// What a plan for GPUs is compiled for; empty: it is one for the host.
std::vector<Architecture> architectures;
} // namespace

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

/// `file:line:column: `, or the model's path where there is no place.
static std::string placeOf(Location location) {
  if (auto file = dyn_cast<FileLineColLoc>(location))
    return file.getFilename().str() + ":" + std::to_string(file.getLine()) +
           ":" + std::to_string(file.getColumn()) + ": ";
  if (auto fused = dyn_cast<FusedLoc>(location))
    return placeOf(fused.getLocations().front());
  return input + ": ";
}

static void printDiagnostic(Diagnostic &diagnostic) {
  if (diagnostic.getSeverity() == DiagnosticSeverity::Remark) {
    llvm::errs() << input << ": note: " << diagnostic.str() << "\n";
    return;
  }
  auto line = [](Location location, StringRef severity, const auto &text) {
    llvm::errs() << placeOf(location) << severity << ": " << text << "\n";
  };
  line(diagnostic.getLocation(),
       diagnostic.getSeverity() == DiagnosticSeverity::Error ? "error"
                                                             : "warning",
       diagnostic.str());
  for (Diagnostic &note : diagnostic.getNotes()) {
    // The op as generic text is of no use to who writes families.
    std::string text = note.str();
    if (!StringRef(text).starts_with("see current operation"))
      line(note.getLocation(), "note", text);
  }
}

/// Prints an error text that may or may not start with a place.
static int fail(const std::string &text) {
  llvm::errs() << text << "\n";
  return 1;
}

static int write(const std::string &text) {
  if (output.empty() || output == "-") {
    llvm::outs() << text;
    llvm::outs().flush();
    if (!llvm::outs().has_error())
      return 0;
    std::string reason = llvm::outs().error().message();
    llvm::outs().clear_error();
    return fail("error: cannot write to the terminal: " + reason);
  }
  if (MaybeError error = writeFile(output, text))
    return fail("error: " + *error);
  return 0;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

static LogicalResult runPipeline(ModuleOp module, StringRef text) {
  PassManager manager(module.getContext());
  if (failed(parsePassPipeline(
          text.drop_front(strlen("builtin.module(")).drop_back(), manager)))
    return failure();
  // A module with thousands of pieces is not printed in a crash report.
  manager.enableVerifier(true);
  return manager.run(module);
}

static std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  stream << "\n";
  return text;
}

/// Covers the compiler, the bound sides (so: family, the config as far as
/// sizes depend on it, the key list's choices, both geometries) and the
/// options of the sync; not target, architectures or paths.
static std::array<uint64_t, 2> fingerprintOf(ModuleOp module,
                                             const Model &model) {
  std::string text = std::string("delta ") + DELTA_VERSION + "\n";
  for (auto side : module.getOps<SideOp>()) {
    llvm::raw_string_ostream stream(text);
    side->print(stream);
  }
  text += model.engine
              ? "\n" + model.engine->engine + " " + model.engine->version + " "
          : model.destination ? "\nmegatron "
                              : "\nhf ";
  text += std::to_string(model.replicas);
  if (model.snapshot != "device")
    text += " " + model.snapshot;
  llvm::XXH128_hash_t hash = llvm::xxh3_128bits(
      ArrayRef(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
  return {hash.high64, hash.low64};
}

/// Nothing where the target has no such snapshot.
static std::optional<delta_snapshot_t> snapshotOf(const Model &model) {
  if (model.snapshot == "device")
    return DELTA_SNAPSHOT_DEVICE;
  if (architectures.empty())
    return std::nullopt;
  return model.snapshot == "pinned"     ? DELTA_SNAPSHOT_PINNED
         : model.snapshot == "pageable" ? DELTA_SNAPSHOT_PAGEABLE
                                        : DELTA_SNAPSHOT_BITMAP;
}

static std::string describe(const TrainerOptions &options) {
  std::string text;
  for (auto [name, size] : std::initializer_list<std::pair<StringRef, int64_t>>{
           {"TP", options.tp},
           {"EP", options.ep},
           {"ETP", options.etp},
           {"PP", options.pp},
           {"VPP", options.vpp},
           {"CP", options.cp},
           {"DP", options.dp}})
    if (size > 1)
      text += (text.empty() ? "" : " ") + name.str() + std::to_string(size);
  return text.empty() ? "one rank" : text;
}

/// What a family leaves out, once for each parameter and reason.
static void printDrops(ModuleOp module) {
  auto source = module.lookupSymbol<SideOp>("source");
  for (auto drop : source.getBody().front().getOps<DropOp>()) {
    ApplyOp apply = applyOf(drop);
    int64_t count = 0;
    for (MapAttr map : apply.getMaps().getAsRange<MapAttr>())
      for (const IndexMap &way : map.getValue().ways)
        count += way.size();
    llvm::errs() << input << ": note: \""
                 << nameOf(apply.getValues()[0].getDefiningOp())
                 << "\": " << count
                 << " elements have no image: " << drop.getReason() << "\n";
  }
}

/// Keeps what was compared in `facts`.
static int runCrossCheck(const LoweredPlan &plan,
                         const reference::Program &program,
                         report::Facts &facts) {
  TableStorage storage(plan);
  std::string error;
  std::unique_ptr<reference::MapSource> map =
      mapOfTables(storage.tables(), error);
  std::optional<reference::Report> report;
  bool isFull = crossCheckMode == CrossCheck::Full;
  // Eight bytes an element of every rank may be more than there is.
  try {
    if (map)
      report = isFull
                   ? reference::crossCheck(program, *map, error)
                   : reference::sampleCheck(program, *map, /*seed=*/1, error);
    // The probe of today's trainers: it must agree as far as it sees.
    if (isFull && report && report->mismatches == 0)
      if (auto probe = reference::nanProbe(program, *map,
                                           reference::someElements(), error);
          !probe || probe->mismatches)
        report = probe;
  } catch (const std::bad_alloc &) {
    error = "not enough memory to move every element of this model";
  } catch (const std::length_error &) {
    error = "not enough memory to move every element of this model";
  }
  if (!report)
    return fail(input + ": error: cross-check: " + error);
  if (report->mismatches != 0)
    return fail(input + ": error: cross-check: " +
                std::to_string(report->mismatches) + " mismatches; " +
                (report->first ? toText(*report->first) : std::string()));
  facts.crossCheck = {isFull, report->tensors, report->elements};
  if (isFull)
    llvm::errs() << input << ": note: cross-check: " << report->elements
                 << " elements of " << report->tensors
                 << " tensors agree with the interpreter\n";
  return 0;
}

/// The stage that was asked for, of those after the maps.
static int writeStage(ModuleOp module, const LoweredPlan &plan,
                      const Installation &installation) {
  switch (emit) {
  case Emit::Import:
  case Emit::Reference:
    break;
  case Emit::Maps:
    // The routes, and what they amount to from rank to rank.
    return write(print(module) +
                 report::trafficText(
                     report::Traffic(TableStorage(plan).tables()), "// "));
  case Emit::Proof:
    return write(printCertificate(module, plan));
  case Emit::Cuda:
    return write(emitCuda(plan));
  case Emit::Host:
    return write(emitHost(plan));
  case Emit::So:
    if (MaybeError error =
            compilePlan(plan, architectures, output, installation))
      return fail("error: " + *error);
    return 0;
  }
  llvm_unreachable("written before the maps");
}

static int writeReport(ModuleOp module, const LoweredPlan &plan,
                       report::Facts facts) {
  facts.sourceDrops = dropsOf(module.lookupSymbol<SideOp>("source"));
  facts.destinationDrops = dropsOf(module.lookupSymbol<SideOp>("destination"));
  if (MaybeError error =
          writeFile(reportPage, report::printReport(plan, facts)))
    return fail("error: " + *error);
  return 0;
}

static int compile(const Model &model) {
  if (!snapshotOf(model))
    return fail(model.path + ": error: sync.snapshot is \"" + model.snapshot +
                "\", which is for --target=cuda; a host plan takes \"device\": "
                "memory of its own");
  Installation installation = findInstallation();
  DialectRegistry registry;
  registry.insert<DeltaDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  context.printOpOnDiagnostic(false);
  context.getDiagEngine().registerHandler(printDiagnostic);

  std::string keys;
  std::optional<Checkpoint> checkpoint;
  if (!keyList.empty()) {
    if (MaybeError error = readFile(keyList, keys))
      return fail("error: " + *error);
    nlohmann::json json = nlohmann::json::parse(keys, nullptr, false);
    if (!json.is_object())
      return fail(keyList + ": error: is not a JSON object");
  } else if (!model.checkpointPath.empty()) {
    std::string error;
    checkpoint = openCheckpoint(model.checkpointPath, error);
    if (!checkpoint || !keyListOf(*checkpoint, keys, error))
      return fail(error);
  }
  std::string familyPath = family.empty() ? model.familyPath : family;
  OwningOpRef<ModuleOp> module =
      loadFamily(context, model, familyPath, installation.modelFolder, keys);
  if (!module || failed(runPipeline(*module, bindPipeline)))
    return 1;
  if (checkpoint && !matchesKeyList(*module, *checkpoint))
    return 1;
  (*module)->removeAttr("delta.keys");
  (*module)->removeAttr("delta.config_places");
  if (emit == Emit::Import)
    return write(print(*module));
  (*module)->removeAttr("delta.config");

  FailureOr<reference::Program> program =
      referenceProgram(*module, model.replicas);
  if (failed(program))
    return 1;
  std::array<uint64_t, 2> fingerprint = fingerprintOf(*module, model);
  auto familyName =
      model.modelType.empty() ? std::string("model") : model.modelType;
  std::string title =
      familyName + " " + describe(model.trainer) + " -> " +
      (model.engine ? model.engine->engine + " " + describe(model.engine->mesh)
       : model.destination ? describe(*model.destination)
                           : std::string("hf")) +
      (model.replicas > 1 ? " x" + std::to_string(model.replicas) : "");
  program->model = title;
  program->fingerprint[0] = fingerprint[0];
  program->fingerprint[1] = fingerprint[1];
  if (emit == Emit::Reference)
    return write(reference::print(*program));

  if (failed(runPipeline(*module, mapPipeline)))
    return 1;
  FailureOr<LoweredPlan> plan = lowerPlan(
      *module, model.replicas, model.engine ? model.engine->version : "");
  if (failed(plan))
    return 1;
  plan->model = title;
  plan->compiler = std::string("delta ") + DELTA_VERSION;
  plan->fingerprint = fingerprint;
  plan->snapshot = *snapshotOf(model);
  printDrops(*module);
  report::Facts facts;
  if (checkpoint)
    facts.checkpointTensors = checkpoint->tensors.size();
  if (crossCheckMode != CrossCheck::Off)
    if (int status = runCrossCheck(*plan, *program, facts))
      return status;
  if (int status = writeStage(*module, *plan, installation))
    return status;
  return reportPage.empty() ? 0 : writeReport(*module, *plan, facts);
}

/// Turns --target and --arch into architectures.
static int chooseTarget() {
  std::vector<std::string> names(architectureNames.begin(),
                                 architectureNames.end());
  MaybeError error;
  if (!names.empty() && target.getNumOccurrences() && target == Target::Host)
    error = "--arch is for --target=cuda, got --target=host";
  else if (names.empty() && target == Target::Cuda)
    names = defaultArchitectures();
  if (!error)
    error = parseArchitectures(names, architectures);
  if (!error)
    return 0;
  llvm::errs() << "error: " << *error << "\n";
  return 2;
}

int main(int argc, char **argv) {
  cl::HideUnrelatedOptions(category);
  cl::SetVersionPrinter([](llvm::raw_ostream &stream) {
    stream << "delta-compile " << DELTA_VERSION << "\n";
  });
  if (!cl::ParseCommandLineOptions(
          argc, argv, "Compiles a model and its geometries into a plan\n",
          &llvm::errs()))
    return 2;
  if (int status = chooseTarget())
    return status;
  bool isBeforeMaps = emit == Emit::Import || emit == Emit::Reference;
  if (crossCheckMode == CrossCheck::Full && isBeforeMaps)
    return fail("error: --cross-check=full needs the maps, which --emit=import "
                "and --emit=reference come before");
  if (!reportPage.empty() && isBeforeMaps)
    return fail("error: --report needs the maps, which --emit=import and "
                "--emit=reference come before");
  if (reportPage == "-" || (!reportPage.empty() && reportPage == output)) {
    llvm::errs() << "error: --report needs a file of its own, got '"
                 << reportPage << "'\n";
    return 2;
  }
  if (emit == Emit::So && (output.empty() || output == "-")) {
    llvm::errs() << "error: --emit=so needs -o FILE\n";
    return 2;
  }
  registerDeltaPasses();
  std::string error;
  std::optional<Model> model = readModel(input, error);
  if (!model)
    return fail(error);
  return compile(*model);
}
