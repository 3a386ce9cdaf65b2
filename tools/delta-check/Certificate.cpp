//===- Certificate.cpp - A certificate against its plan and model ---------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The proof itself is checked in tools/certificate. Here the plan is held
/// against model.json: axis sizes, replicas, and the key list of its
/// checkpoint, if it has one.
///
//===----------------------------------------------------------------------===//

#include "models/Checkpoint.h"
#include "models/ModelReader.h"
#include "tools/certificate/Checker.h"
#include "tools/delta-check/Checks.h"
#include "tools/delta-check/ModelFile.h"
#include "tools/reference/MapSource.h"
#include "tools/reference/PlanFile.h"

#include <algorithm>
#include <set>

using namespace delta;
using namespace delta::check;

static bool matchesAxes(const std::string &name, const delta_side_t &side,
                        const TrainerOptions &options, std::string &error) {
  struct Axis {
    const char *name;
    int64_t plan, model;
  };
  for (const Axis &axis : {Axis{"tp", side.tp, options.tp},
                           {"cp", side.cp, options.cp},
                           {"dp", side.dp, options.dp},
                           {"ep", side.ep, options.ep},
                           {"etp", side.etp, options.etp},
                           {"pp", side.pp, options.pp},
                           {"vpp", side.vpp, options.vpp}})
    if (axis.plan != axis.model) {
      error = name + " has " + axis.name + " " + std::to_string(axis.plan) +
              " in the plan, model.json says " + std::to_string(axis.model);
      return false;
    }
  return true;
}

/// The experts of an engine's slots, of all ranks in order, one table or one a
/// layer.
static std::vector<std::vector<int64_t>> slotsOf(const EngineOptions &engine,
                                                 int64_t numExperts) {
  if (!engine.slots.empty())
    return engine.slots;
  std::vector<int64_t> table;
  if (engine.placement == "round_robin")
    for (int64_t rank = 0; rank < engine.ep; ++rank)
      for (int64_t expert = rank; expert < numExperts; expert += engine.ep)
        table.push_back(expert);
  else
    for (int64_t i = 0; i < numExperts + engine.redundantExperts; ++i)
      table.push_back(i % numExperts);
  return {table};
}

/// Axes, and what each slot holds. The first ranks have one slot more where
/// their number does not divide the slots.
static bool matchesEngine(const delta_tables_t &tables,
                          const EngineOptions &engine, std::string &error) {
  const std::string version =
      tables.engine_version ? tables.engine_version : "";
  if (engine.version != version) {
    error = "the plan is for version \"" + version + "\", model.json says \"" +
            engine.version + "\"";
    return false;
  }
  if (!matchesAxes("destination", tables.destination, engine.mesh, error))
    return false;
  const delta_slots_t &plan = tables.slots;
  if (tables.destination.num_experts == 0)
    return true;
  const auto slots = slotsOf(engine, tables.destination.num_experts);
  const int64_t each = int64_t(slots[0].size()) / engine.ep;
  const int64_t more = int64_t(slots[0].size()) % engine.ep;
  bool same = plan.num_tables == slots.size();
  for (int64_t rank = 0; same && rank <= engine.ep; ++rank)
    same = plan.first[rank] == rank * each + std::min(rank, more);
  for (size_t i = 0; same && i < slots.size() * slots[0].size(); ++i)
    same = plan.num_slots == slots[0].size() &&
           plan.expert[i] == slots[i / slots[0].size()][i % slots[0].size()];
  if (!same)
    error = "the plan has other experts in its slots than model.json says";
  return same;
}

/// Names, shapes and types of the tensors of a side, one by one.
static bool matchesSide(reference::MapSource &map, delta_side_id_t side,
                        const Checkpoint &checkpoint,
                        std::set<std::string> &seen, std::string &error) {
  for (uint32_t i = 0; i < map.numParams(side, 0); ++i) {
    delta_param_info_t info;
    if (!map.param(side, 0, i, info)) {
      error = "the plan does not describe tensor " + std::to_string(i);
      return false;
    }
    std::string name = reference::namesOf(info).front();
    auto it = checkpoint.tensors.find(name);
    if (it == checkpoint.tensors.end() || !seen.insert(name).second) {
      error = "tensor \"" + name + "\" is " +
              (it == checkpoint.tensors.end() ? "not in the checkpoint"
                                              : "twice in the plan");
      return false;
    }
    if (it->second.shape != reference::shapeOf(info) ||
        plainTypeName(it->second.dtype) != reference::dtypeName(info.dtype)) {
      error =
          "tensor \"" + name + "\" has another shape or type in the checkpoint";
      return false;
    }
  }
  return true;
}

/// All tensors, those that are copied among them.
static bool matchesKeys(const delta_plan_api_t &api,
                        const Checkpoint &checkpoint, std::string &error) {
  std::unique_ptr<reference::MapSource> map = reference::mapOfPlan(api, error);
  if (!map)
    return false;
  std::set<std::string> seen;
  for (delta_side_id_t side : {DELTA_HF, DELTA_COPIED})
    if (map->numRanks(side) &&
        !matchesSide(*map, side, checkpoint, seen, error))
      return false;
  for (const auto &[name, tensor] : checkpoint.tensors)
    if (!seen.count(name)) {
      error = "tensor \"" + name + "\" of the checkpoint is not in the plan";
      return false;
    }
  return true;
}

bool delta::check::checkCertificate(const std::string &certificatePath,
                                    const std::string &planPath,
                                    const std::string &modelPath,
                                    std::string &summary, std::string &error) {
  const std::optional<std::string> text = readFile(certificatePath, error);
  if (!text) {
    error = "cannot read the certificate";
    return false;
  }
  std::unique_ptr<reference::PlanFile> plan =
      reference::PlanFile::open(planPath, error);
  if (!plan)
    return false;
  const delta_tables_t &tables = *plan->api().tables;
  summary = certificate::check(*text, tables, error);
  if (summary.empty())
    return false;
  std::optional<Model> model = readModel(modelPath, error);
  if (!model || !matchesAxes("source", tables.source, model->trainer, error))
    return false;
  const std::string engine = model->engine ? model->engine->engine : "";
  if ((model->destination || model->engine) == tables.destination_is_hf ||
      engine != (tables.engine ? tables.engine : "") ||
      model->replicas != tables.destination.replicas) {
    error = "the plan is for another destination than model.json";
    return false;
  }
  if (model->engine && !matchesEngine(tables, *model->engine, error))
    return false;
  if (model->destination && !matchesAxes("destination", tables.destination,
                                         *model->destination, error))
    return false;
  std::string names = "names: not checked";
  if (!model->checkpointPath.empty()) {
    std::optional<Checkpoint> checkpoint =
        openCheckpoint(model->checkpointPath, error);
    if (!checkpoint || !matchesKeys(plan->api(), *checkpoint, error))
      return false;
    names = std::to_string(checkpoint->tensors.size()) +
            " names agree with the checkpoint";
  }
  summary += "; " + names;
  return true;
}
