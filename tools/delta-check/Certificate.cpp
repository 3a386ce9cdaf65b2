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
  if (bool(model->destination) != !tables.destination_is_hf ||
      model->replicas != tables.destination.replicas) {
    error = "the plan is for another destination than model.json";
    return false;
  }
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
