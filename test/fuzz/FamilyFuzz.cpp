//===- FamilyFuzz.cpp - Changed family texts ------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Parses a family text, binds it to a small config and runs all passes. What
/// fails must have said so. MLIR, and so its parser, is not instrumented:
/// mutations know the text. Words, numbers and lines are dropped, doubled,
/// swapped and replaced. With DELTA_FUZZ_SHOW set, the first error of each
/// input is printed.
///
//===----------------------------------------------------------------------===//

#include "dialect/DeltaDialect.h"
#include "passes/Passes.h"
#include "passes/Pipeline.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

using namespace mlir;

/// Sizes for every family: few layers, heads and experts.
static const char *const Config = R"({
  "hidden_size": 8, "intermediate_size": 6, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 2, "num_hidden_layers": 2,
  "vocab_size": 10, "tie_word_embeddings": false, "num_experts": 4,
  "num_local_experts": 4, "moe_intermediate_size": 4, "n_routed_experts": 4,
  "num_experts_per_tok": 2, "hybrid_override_pattern": "M*",
  "mamba_num_heads": 4, "mamba_head_dim": 2, "ssm_state_size": 2,
  "n_groups": 2, "conv_kernel": 2, "layer_types": ["full_attention",
  "full_attention"], "decoder_sparse_step": 1, "mlp_only_layers": []})";

static OwningOpRef<ModuleOp> parse(MLIRContext &context, StringRef text) {
  return parseSourceString<ModuleOp>(text, ParserConfig(&context));
}

/// What an import would bring; the fuzzer does not follow paths.
static void addBlocks(MLIRContext &context, ModuleOp module) {
  static const std::string blocks = [] {
    std::ifstream in(DELTA_FUZZ_BLOCKS);
    return std::string((std::istreambuf_iterator<char>(in)),
                       std::istreambuf_iterator<char>());
  }();
  OwningOpRef<ModuleOp> other = parse(context, blocks);
  if (!other)
    abort();
  for (auto block : llvm::make_early_inc_range(other->getOps<delta::BlockOp>()))
    if (!module.lookupSymbol(block.getSymName()))
      block->moveBefore(module.getBody(), module.getBody()->end());
}

static DictionaryAttr geometry(Builder &builder, int64_t tp, int64_t ep) {
  SmallVector<NamedAttribute> attrs;
  auto add = [&](StringRef name, int64_t value) {
    attrs.push_back(
        builder.getNamedAttr(name, builder.getI64IntegerAttr(value)));
  };
  add("tp", tp);
  add("ep", ep);
  add("dp", ep / tp > 1 ? ep / tp : 1);
  add("edp", tp / ep > 1 ? tp / ep : 1);
  for (StringRef name : {"cp", "etp", "pp", "vpp"})
    add(name, 1);
  add("vocab_multiple", 4);
  add("mtp_layers", -1);
  attrs.push_back(builder.getNamedAttr("dtype", builder.getStringAttr("bf16")));
  attrs.push_back(
      builder.getNamedAttr("experts", builder.getStringAttr("grouped")));
  return builder.getDictionaryAttr(attrs);
}

/// A pipeline for the whole module, "builtin.module(...)".
static bool run(MLIRContext &context, ModuleOp module, StringRef pipeline) {
  PassManager passes(&context);
  if (!pipeline.consume_front("builtin.module(") ||
      !pipeline.consume_back(")") ||
      failed(parsePassPipeline(pipeline, passes, llvm::errs())))
    abort();
  return succeeded(passes.run(module));
}

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  delta::registerDeltaPasses();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<delta::DeltaDialect>();
  uint64_t numErrors = 0;
  std::string firstError;
  context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error &&
        numErrors++ == 0)
      firstError = diagnostic.str();
    return success();
  });
  StringRef text(reinterpret_cast<const char *>(data), size);
  OwningOpRef<ModuleOp> module = parse(context, text);
  bool done = bool(module);
  if (done && llvm::hasSingleElement(module->getOps<delta::FamilyOp>())) {
    addBlocks(context, *module);
    Builder builder(&context);
    (*module)->setAttr("delta.config", builder.getStringAttr(Config));
    // Expert ranks for a dense model are refused at once.
    int64_t ep =
        text.contains("num_experts") || text.contains("num_local_experts") ? 2
                                                                           : 1;
    (*module)->setAttr("delta.source", geometry(builder, 2, ep));
    if (size % 2)
      (*module)->setAttr("delta.destination", geometry(builder, 1, ep));
    done = run(context, *module, delta::bindPipeline) &&
           run(context, *module, delta::mapPipeline);
  }
  if (!done && numErrors == 0)
    abort(); // refused without a word
  if (getenv("DELTA_FUZZ_SHOW"))
    llvm::errs() << firstError << "\n";
  return 0;
}

//===----------------------------------------------------------------------===//
// Mutations
//===----------------------------------------------------------------------===//

/// Words, numbers, strings, spaces, and single other letters.
static std::vector<std::string> split(const std::string &text) {
  std::vector<std::string> tokens;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    auto isWord = [&](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' ||
             c == '.';
    };
    if (isWord(text[at]))
      while (end < text.size() && isWord(text[end]))
        ++end;
    else if (text[at] == '"')
      end = std::min(text.find('"', end), text.size() - 1) + 1;
    tokens.push_back(text.substr(at, end - at));
    at = end;
  }
  return tokens;
}

/// What can stand for a token and still parse, roughly.
static char kindOf(const std::string &token) {
  auto first = static_cast<unsigned char>(token[0]);
  return std::isdigit(first)                   ? '0'
         : std::isalpha(first) || first == '_' ? 'a'
                                               : char(first);
}

/// Another token of the text of the same kind; itself if it has none.
static const std::string &another(const std::vector<std::string> &tokens,
                                  size_t of, std::minstd_rand &random) {
  for (int tries = 0; tries < 200; ++tries) {
    const std::string &found = tokens[random() % tokens.size()];
    if (kindOf(found) == kindOf(tokens[of]) && found != tokens[of])
      return found;
  }
  return tokens[of];
}

static void mutate(std::vector<std::string> &tokens, std::minstd_rand &random) {
  static const char *const numbers[] = {
      "0",  "1",          "2",
      "-1", "4294967296", "3037000500",
      "7",  "2147483648", "9223372036854775807"};
  static const char *const texts[] = {"\"\"", "\"{layer}\"", "\"{expert+1}\"",
                                      "\"{layer-9}.w\"", "\"x\""};
  size_t a = random() % tokens.size(), b = random() % tokens.size();
  while (std::isspace(static_cast<unsigned char>(tokens[a][0])) && a > 0)
    --a;
  auto begin = tokens.begin() + long(a);
  std::vector<std::string> line(begin, std::find(begin, tokens.end(), "\n"));
  uint32_t kind = random() % 16;
  if (kind == 0)
    tokens.erase(begin);
  else if (kind == 1)
    std::swap(tokens[a], tokens[b]);
  else if (kind <= 3)
    tokens.erase(begin, begin + long(line.size()));
  else if (kind == 4)
    tokens.insert(tokens.begin() + long(b), line.begin(), line.end());
  else if (kind <= 8 && kindOf(tokens[a]) == '0')
    tokens[a] = numbers[random() % (sizeof(numbers) / sizeof(numbers[0]))];
  else if (kind <= 6 && kindOf(tokens[a]) == '"')
    tokens[a] = texts[random() % (sizeof(texts) / sizeof(texts[0]))];
  else if (kind == 7 && kindOf(tokens[a]) == 'a')
    tokens[a] = numbers[random() % (sizeof(numbers) / sizeof(numbers[0]))];
  else
    tokens[a] = another(tokens, a, random);
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<std::string> tokens =
      split(std::string(reinterpret_cast<char *>(data), size));
  for (unsigned i = random() % 2 + 1; i > 0 && !tokens.empty(); --i)
    mutate(tokens, random);
  std::string text;
  for (const std::string &token : tokens)
    text += token;
  size = std::min(text.size(), maxSize);
  memcpy(data, text.data(), size);
  return size;
}
