//===- Main.cpp - delta-check ---------------------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The command line. Exit codes: 0 all agrees, 1 refused or a mismatch, 2
/// usage.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-check/Checks.h"
#include "tools/delta-check/ModelFile.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace fs = std::filesystem;
using namespace delta::check;

namespace {

struct Options {
  std::vector<std::string> golden, reshard, rollout, copied;
  std::string manifest, config, geometry, family, json;
  std::string certificate, plan, model;
};

/// A folder of cases stands for its cases; any other folder for itself.
std::vector<std::string> casesOf(const std::vector<std::string> &folders) {
  std::vector<std::string> cases;
  std::error_code code;
  for (const std::string &folder : folders) {
    std::vector<std::string> inside;
    if (!fs::exists(folder + "/config.json", code))
      for (const auto &entry : fs::directory_iterator(folder, code))
        if (fs::exists(entry.path() / "config.json", code))
          inside.push_back(entry.path());
    std::sort(inside.begin(), inside.end());
    if (inside.empty())
      inside.push_back(folder);
    cases.insert(cases.end(), inside.begin(), inside.end());
  }
  return cases;
}

bool writeReport(const std::string &path, const CheckReport &report) {
  Json json;
  json["tensors"] = report.tensors;
  json["elements"] = report.elements;
  json["mismatches"] = report.mismatches;
  json["bridge_padding"] = report.bridgePadding;
  json["unbound"] = report.unbound;
  json["first"] = nullptr;
  if (report.first) {
    Json &first = json["first"] = Json::object();
    const bool both =
        !report.first->where.empty() && !report.first->tensor.empty();
    first["tensor"] =
        report.first->where + (both ? " " : "") + report.first->tensor;
    first["element"] = nullptr;
    if (report.first->element)
      first["element"] = *report.first->element;
    first["expected"] = report.first->expected;
    first["found"] = report.first->found;
  }
  std::ofstream file(path, std::ios::binary);
  file << json.dump(1) << "\n";
  file.close();
  if (!file)
    std::fprintf(stderr, "delta-check: cannot write %s\n", path.c_str());
  return bool(file);
}

/// Adds the report of one case to the whole and prints it.
void finish(const std::string &name, const CheckReport &report,
            CheckReport &total) {
  std::printf("%s: %lld tensors, %lld elements, %lld mismatches", name.c_str(),
              static_cast<long long>(report.tensors),
              static_cast<long long>(report.elements),
              static_cast<long long>(report.mismatches));
  if (report.bridgePadding)
    std::printf(", %lld elements of exported padding",
                static_cast<long long>(report.bridgePadding));
  if (report.unbound)
    std::printf(", %lld elements that are not bound",
                static_cast<long long>(report.unbound));
  std::printf("\n");
  std::fflush(stdout);
  if (report.first)
    std::fprintf(stderr, "delta-check: %s: %s\n", name.c_str(),
                 toText(*report.first).c_str());
  total.tensors += report.tensors;
  total.elements += report.elements;
  total.bridgePadding += report.bridgePadding;
  total.unbound += report.unbound;
  total.mismatches += report.mismatches;
  if (!total.first)
    total.first = report.first;
}

/// Runs all cases; the exit code.
int run(const Options &options) {
  CheckReport total;
  bool good = true;
  if (!options.certificate.empty()) {
    std::string summary, error;
    if (!checkCertificate(options.certificate, options.plan, options.model,
                          summary, error)) {
      std::fprintf(stderr, "delta-check: %s: %s\n", options.certificate.c_str(),
                   error.c_str());
      return 1;
    }
    std::printf("%s: holds: %s\n", options.certificate.c_str(),
                summary.c_str());
  }
  const auto check = [&](const std::string &name, const auto &function) {
    CheckReport report;
    std::string error;
    if (!function(report, error)) {
      std::fprintf(stderr, "delta-check: %s: %s\n", name.c_str(),
                   error.c_str());
      good = false;
      return;
    }
    if (report.elements == 0 && report.mismatches == 0) {
      std::fprintf(stderr, "delta-check: %s: nothing was compared\n",
                   name.c_str());
      good = false;
    }
    finish(name, report, total);
  };
  const auto nameOf = [](const std::string &path) {
    const fs::path plain = (fs::path(path) / "").parent_path();
    return plain.filename().string();
  };
  for (const std::string &folder : casesOf(options.golden))
    check(nameOf(folder), [&](CheckReport &report, std::string &error) {
      return checkGolden(folder, options.family, report, error);
    });
  for (const std::string &folder : casesOf(options.reshard))
    check(nameOf(folder), [&](CheckReport &report, std::string &error) {
      return checkReshard(folder, options.family, report, error);
    });
  for (const std::string &folder : casesOf(options.rollout))
    check(nameOf(folder), [&](CheckReport &report, std::string &error) {
      return checkRollout(folder, options.geometry, options.family, report,
                          error);
    });
  if (!options.manifest.empty())
    check(nameOf(options.manifest), [&](CheckReport &report,
                                        std::string &error) {
      return checkManifest(options.manifest, options.config, options.geometry,
                           options.family, options.copied, report, error);
    });
  if (!options.json.empty())
    good &= writeReport(options.json, total);
  return good && total.mismatches == 0 ? 0 : 1;
}

CLI::Option *addManifest(CLI::App &app, Options &options) {
  CLI::Option *manifest =
      app.add_option("--manifest", options.manifest,
                     "names, shapes and dtypes of a published checkpoint");
  CLI::Option *config = app.add_option("--config", options.config,
                                       "the published config of the manifest");
  CLI::Option *copied = app.add_option(
      "--copied", options.copied,
      "tensors of the manifest, {a..b} for numbers, that no trainer holds and "
      "an export copies; all others must be sent");
  manifest->needs(config);
  config->needs(manifest);
  copied->needs(manifest);
  return manifest;
}

} // namespace

/// Parses the command line and runs; the exit code.
static int runTool(int argc, char **argv) {
  CLI::App app("Checks a certificate against its plan, or compares a freshly "
               "compiled plan, element by element, with data that was made "
               "elsewhere");
  app.name("delta-check");
  Options options;
  CLI::Option *certificate =
      app.add_option("CERT", options.certificate,
                     "a certificate (delta-compile --emit=proof)");
  CLI::Option *plan =
      app.add_option("--plan", options.plan, "the plan of the certificate");
  CLI::Option *model =
      app.add_option("--model", options.model, "the model.json of the plan");
  CLI::Option *golden = app.add_option(
      "--golden", options.golden,
      "trainer to checkpoint maps of a real converter: cases, or a folder of "
      "them");
  CLI::Option *reshard =
      app.add_option("--golden-reshard", options.reshard,
                     "trainer to trainer maps: cases, or a folder of them");
  CLI::Option *rollout =
      app.add_option("--golden-rollout", options.rollout,
                     "what an engine's loader did: cases, or a folder of them");
  CLI::Option *manifest = addManifest(app, options);
  CLI::Option *geometry = app.add_option(
      "--geometry", options.geometry,
      "a model.json whose \"trainer\" is used with the manifest, or to reach "
      "the engine");
  app.add_option("--family", options.family,
                 "mapping description to use instead of the one for the model");
  app.add_option("--json", options.json, "write the counts to this file");
  certificate->needs(plan);
  certificate->needs(model);
  plan->needs(certificate);
  model->needs(certificate);
  try {
    app.parse(argc, argv);
    if (certificate->count() + golden->count() + reshard->count() +
            rollout->count() + manifest->count() ==
        0)
      throw CLI::RequiredError("CERT, --golden, --golden-reshard, "
                               "--golden-rollout or --manifest");
    if (geometry->count() && !manifest->count() && !rollout->count())
      throw CLI::RequiresError("--geometry", "--manifest or --golden-rollout");
  } catch (const CLI::CallForHelp &help) {
    return app.exit(help);
  } catch (const CLI::ParseError &error) {
    app.exit(error);
    return 2;
  }
  return run(options);
}

int main(int argc, char **argv) {
  try {
    return runTool(argc, argv);
  } catch (const std::exception &exception) {
    std::fputs("delta-check: ", stderr);
    std::fputs(exception.what(), stderr);
    std::fputs("\n", stderr);
  }
  return 1;
}
