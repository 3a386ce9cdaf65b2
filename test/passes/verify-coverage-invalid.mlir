// Every way in which a mapping can be no bijection: the tensor or parameter,
// both claimants and one element.
//
// RUN: delta-opt %s --delta-verify-coverage -split-input-file -verify-diagnostics

delta.side @hole mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  // expected-note @below {{parameter declared here}}
  %w = delta.param "w" [2, 4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 8 -> 10, {0 -> 0, 5 x (1, 1)}, {5 -> 7, 3 x (1, 1)}>]
  // expected-error @below {{'delta.tensor' op tensor "t": element [1, 0] has no owner}}
  delta.tensor "t" = %a as [2, 5]
}

// -----

delta.side @hole_behind_the_last_way mesh {tp = 2} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  // expected-note @below {{parameter declared here}}
  %w = delta.param "w" [8] : bf16 on first {axis = "tp", local = array<i64: 4>, ways = 2}
  %a = delta.apply %w by [#delta.map<ways 2, 4 -> 9, {0 -> 0 + 4 way, 4 x (1, 1)}>]
  // expected-error @below {{'delta.tensor' op tensor "t": element [8] has no owner}}
  delta.tensor "t" = %a as [9]
}

// -----

delta.side @overlap_of_two_ways mesh {tp = 2} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  // expected-note @below {{parameter declared here}}
  %w = delta.param "w" [4, 2] : bf16 on first {axis = "tp", local = array<i64: 2, 2>, ways = 2}
  %a = delta.apply %w by [#delta.map<ways 2, 4 -> 8, {0 -> 0 + 3 way, 4 x (1, 1)}>]
  // expected-error @below {{'delta.tensor' op tensor "t": element [1, 1] has two owners: "w" way 0 element [1, 1] and "w" way 1 element [0, 0]}}
  delta.tensor "t" = %a as [4, 2]
}

// -----

delta.side @overlap_of_two_parameters mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  // expected-note @below {{parameter declared here}}
  %w = delta.param "w" [4] : bf16 on first
  // expected-note @below {{parameter declared here}}
  %v = delta.param "v" [4] : bf16 on first
  %a = delta.apply %w, %v by [#delta.map<ways 1, 4 -> 8, {0 -> 0, 4 x (1, 2)}>,
                              #delta.map<ways 1, 4 -> 8, {0 -> 4, 4 x (1, 1)}>]
  // expected-error @below {{'delta.tensor' op tensor "t": element [6] has two owners: "w" way 0 element [3] and "v" way 0 element [2]}}
  delta.tensor "t" = %a as [8]
}

// -----

// 0, 4, 8, 12 and 2, 8: the strides do not nest in one another.
delta.side @overlap_found_by_presburger mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  // expected-note @below {{parameter declared here}}
  %w = delta.param "w" [4] : bf16 on first
  // expected-note @below {{parameter declared here}}
  %v = delta.param "v" [2] : bf16 on first
  %a = delta.apply %w, %v by [#delta.map<ways 1, 4 -> 14, {0 -> 0, 4 x (1, 4)}>,
                              #delta.map<ways 1, 2 -> 14, {0 -> 2, 2 x (1, 6)}>]
  // expected-error @below {{'delta.tensor' op tensor "t": element [8] has two owners: "w" way 0 element [2] and "v" way 0 element [1]}}
  delta.tensor "t" = %a as [14]
}

// -----

delta.side @overlap_of_one_piece mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  // expected-note @below {{parameter declared here}}
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 2 x (2, 1), 2 x (1, 1)}>]
  // expected-error @below {{'delta.tensor' op tensor "t": element [1] has two owners: "w" way 0 element [2] and "w" way 0 element [1]}}
  delta.tensor "t" = %a as [4]
}

// -----

delta.side @overlap_of_two_pieces mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  // expected-note @below {{parameter declared here}}
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 2 x (1, 1)}, {2 -> 1, 2 x (1, 1)}>]
  // expected-error @below {{'delta.tensor' op tensor "t": element [1] has two owners: "w" way 0 element [1] and "w" way 0 element [2]}}
  delta.tensor "t" = %a as [4]
}

// -----

delta.side @tensor_out_of_bounds mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  // expected-note @below {{parameter declared here}}
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 1, 4 x (1, 1)}>]
  // expected-error @below {{'delta.tensor' op tensor "t": element 4 of 4 is out of bounds; it is claimed by "w" way 0 element [3]}}
  delta.tensor "t" = %a as [4]
}

// -----

delta.side @tensor_before_its_start mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  // expected-note @below {{parameter declared here}}
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> -1, 4 x (1, 1)}>]
  // expected-error @below {{'delta.tensor' op tensor "t": element -1 of 4 is out of bounds; it is claimed by "w" way 0 element [0]}}
  delta.tensor "t" = %a as [4]
}

// -----

delta.side @parameter_out_of_bounds mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  // expected-error @below {{'delta.param' op parameter "w" way 0: element 4 of 4 is out of bounds; it is read by "t"}}
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 5, {0 -> 0, 5 x (1, 1)}>]
  delta.tensor "t" = %a as [5]
}

// -----

delta.side @parameter_beyond_64_bits mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  // expected-error @below {{'delta.param' op parameter "w" way 0: element 9223372036854775807 of 4 is out of bounds; it is read by "t"}}
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (4611686018427387904, 1)}>]
  delta.tensor "t" = %a as [4]
}

// -----

delta.side @tensor_beyond_64_bits mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  // expected-note @below {{parameter declared here}}
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 4611686018427387904)}>]
  // expected-error-re @below {{'delta.tensor' op tensor "t": element {{.*}} of 4 is out of bounds; it is claimed by "w" way 0}}
  delta.tensor "t" = %a as [4]
}

// -----

delta.side @element_without_image mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  // expected-error @below {{'delta.param' op parameter "w" way 0: element [1, 2] has no image and is not dropped}}
  %w = delta.param "w" [2, 3] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 6 -> 5, {0 -> 0, 5 x (1, 1)}>]
  delta.tensor "t" = %a as [5]
}

// -----

delta.side @element_of_the_second_way_without_image mesh {tp = 2} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  // expected-error @below {{'delta.param' op parameter "w" way 1: element [2] has no image and is not dropped}}
  %w = delta.param "w" [6] : bf16 on first {axis = "tp", local = array<i64: 3>, ways = 2}
  %a = delta.apply %w by [#delta.map<ways 2, 3 -> 5, {ways 0 to 0: 0 -> 0, 3 x (1, 1)}, {ways 1 to 1: 0 -> 3, 2 x (1, 1)}>]
  delta.tensor "t" = %a as [5]
}

// -----

delta.side @two_images mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  // expected-error @below {{'delta.param' op parameter "w" way 0: element [2] has two images: in "t" and in "u"}}
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  %b = delta.apply %w by [#delta.map<ways 1, 4 -> 2, {2 -> 0, 2 x (1, 1)}>]
  delta.tensor "t" = %a as [4]
  delta.tensor "u" = %b as [2]
}

// -----

delta.side @image_and_drop mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  // expected-error @below {{'delta.param' op parameter "w" way 0: element [3] has two images: in "t" and in "drop: padding"}}
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  %b = delta.apply %w by [#delta.map<ways 1, 4 -> 1, {3 -> 0}>]
  delta.tensor "t" = %a as [4]
  delta.drop %b because "padding"
}

// -----

// expected-error @below {{'delta.side' op layers 1 and an earlier one both are local layer 0 of stage 0, chunk 0}}
delta.side @two_layers_in_one_place mesh {} layers 2 experts 0 stages [[2]] placement [0, 0, 0, 0, 0, 0, 0, 1] expert_ranks [] {
}

// -----

// expected-error @below {{'delta.side' op places 1 of 2 layers}}
delta.side @layer_without_a_place mesh {} layers 2 experts 0 stages [[2]] placement [0, 0, 0, 0] expert_ranks [] {
}

// -----

// expected-error @below {{'delta.side' op expert 1 and an earlier one both are local expert 0 of ep rank 0}}
delta.side @two_experts_in_one_place mesh {} layers 1 experts 2 stages [[1]] placement [0, 0, 0, 0] expert_ranks [0, 0, 0, 0] {
}

// -----

// expected-error @below {{'delta.side' op places 1 of 2 experts}}
delta.side @expert_without_a_place mesh {} layers 1 experts 2 stages [[1]] placement [0, 0, 0, 0] expert_ranks [0, 0] {
}

// -----

// expected-error @below {{'delta.side' op has no instance tables; fold them first}}
delta.side @no_tables mesh {} layers 1 experts 0 stages [[1]] {
}

// -----

delta.side @two_parameters_with_one_name mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  // expected-note @below {{the other one is here}}
  %w = delta.param "w" | "old" [4] : bf16 on first
  // expected-error @below {{'delta.param' op (param_c4) two parameters have the name "old"}}
  %v = delta.param "v" | "old" [4] : bf16 on first
  %a = delta.apply %w, %v by [#delta.map<ways 1, 4 -> 8, {0 -> 0, 4 x (1, 1)}>,
                              #delta.map<ways 1, 4 -> 8, {0 -> 4, 4 x (1, 1)}>]
  delta.tensor "t" = %a as [8]
}

// -----

delta.side @copy_with_the_name_of_a_parameter mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  // expected-note @below {{the other one is here}}
  %w = delta.param "w" [4] : bf16 on last
  // expected-error @below {{'delta.copy' op (param_c4) two parameters have the name "w"}}
  delta.copy "w" of %w on last
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  delta.tensor "t" = %a as [4]
}

// -----

// Only when the holes are filled do the names agree.
delta.side @expert_10_of_layer_1_and_expert_0_of_layer_11 mesh {} layers 12 experts 12 stages [[12]] placement [0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 2, 2, 0, 0, 3, 3, 0, 0, 4, 4, 0, 0, 5, 5, 0, 0, 6, 6, 0, 0, 7, 7, 0, 0, 8, 8, 0, 0, 9, 9, 0, 0, 10, 10, 0, 0, 11, 11]
    expert_ranks [0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 9, 0, 10, 0, 11] {
  // expected-note @below {{the other one is here}}
  %w = delta.param "w{layer}{expert}" [4] : bf16 on layers(1) experts
  // expected-error @below {{'delta.param' op (param_c4) two parameters have the name "w110"}}
  %v = delta.param "w{layer}{expert}" [4] : bf16 on layers(11) experts
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  %b = delta.apply %v by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  delta.tensor "t{layer}.{expert}" = %a as [4]
  delta.tensor "u{layer}.{expert}" = %b as [4]
}

// -----

delta.side @two_tensors_with_one_name mesh {} layers 2 experts 0 stages [[2]] placement [0, 0, 0, 0, 0, 0, 1, 1] expert_ranks [] {
  %w = delta.param "w.{layer}" [4] : bf16 on layers(0 to 1)
  %v = delta.param "v.{layer}" [4] : bf16 on layers(1)
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  %b = delta.apply %v by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  // expected-note @below {{the other one is here}}
  delta.tensor "t.{layer}" = %a as [4]
  // expected-error @below {{'delta.tensor' op (tensor_c3) two tensors have the name "t.1"}}
  delta.tensor "t.{layer}" = %b as [4]
}

// -----

delta.side @open_holes mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  // expected-note @below {{the other one is here}}
  %w = delta.param "w{layer" [4] : bf16 on first
  // expected-error @below {{'delta.param' op (param_c4) two parameters have the name "w{layer"}}
  %v = delta.param "w{layer" [4] : bf16 on first
  delta.drop %w because "test"
  delta.drop %v because "test"
}

// -----

delta.side @sizes_differ mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  // expected-error @below {{'delta.tensor' op (tensor_c1) shape has 5 elements, its maps make 4}}
  delta.tensor "t" = %a as [5]
}

// -----

delta.side @ways_differ mesh {tp = 2} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  %w = delta.param "w" [4] : bf16 on first {axis = "tp", local = array<i64: 2>, ways = 2}
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  // expected-error @below {{'delta.tensor' op reads 1 ways of 4 elements, parameter "w" has 2 of 2}}
  delta.tensor "t" = %a as [4]
}

// -----

delta.side @parameters_of_other_layers mesh {} layers 2 experts 0 stages [[2]] placement [0, 0, 0, 0, 0, 0, 1, 1] expert_ranks [] {
  %w = delta.param "w.{layer}" [4] : bf16 on layers(0)
  %v = delta.param "v.{layer}" [4] : bf16 on layers(1)
  %a = delta.apply %w, %v by [#delta.map<ways 1, 4 -> 8, {0 -> 0, 4 x (1, 1)}>,
                              #delta.map<ways 1, 4 -> 8, {0 -> 4, 4 x (1, 1)}>]
  // expected-error @below {{'delta.tensor' op reads parameters of other layers or experts: "w.{layer}" and "v.{layer}"}}
  delta.tensor "t.{layer}" = %a as [8]
}

// -----

delta.side @not_composed mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  %b = delta.apply %a by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  // expected-error @below {{'delta.tensor' op is not composed yet}}
  delta.tensor "t" = %b as [4]
}

// -----

delta.side @not_folded mesh {} layers 1 experts 0 stages [[1]] placement [0, 0, 0, 0] expert_ranks [] {
  %w = delta.param "w" [4] : bf16 on first
  // expected-error @below {{'delta.tensor' op is not composed yet}}
  delta.tensor "t" = %w as [4]
}

// -----

// One template in two stacks: local numbers restart, so a rank may hold both.
delta.side @one_name_in_two_stacks mesh {} layers 1 experts 0 stages [[1]]
    stacks [[1, "last"], [1, "last"]]
    placement [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2] expert_ranks [] {
  // expected-note @below {{the other one is here}}
  %w = delta.param "m.{layer}.w" [4] : bf16 on layers(1)
  // expected-error @below {{'delta.param' op (param_c4) two parameters have the name "m.{layer}.w"}}
  %v = delta.param "m.{layer}.w" [4] : bf16 on layers(2)
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  %b = delta.apply %v by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  delta.tensor "t.{layer-1}" = %a as [4]
  delta.tensor "u.{layer-2}" = %b as [4]
}

// -----

// A decoder's template in a stack clashes the same way.
delta.side @one_name_in_decoder_and_stack mesh {} layers 1 experts 0 stages [[1]]
    stacks [[1, "last"]] placement [0, 0, 0, 0, 0, 0, 0, 1] expert_ranks [] {
  // expected-note @below {{the other one is here}}
  %w = delta.param "m.{layer}.w" | "l.{layer}.w" [4] : bf16 on layers(0)
  // expected-error @below {{'delta.param' op (param_c4) two parameters have the name "l.{layer}.w"}}
  %v = delta.param "l.{layer}.w" [4] : bf16 on layers(1)
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  %b = delta.apply %v by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  delta.tensor "t.{layer}" = %a as [4]
  delta.tensor "u.{layer}" = %b as [4]
}

// -----

// Tensor names hold the number within the model: layer 1 of the decoder, and
// the stack's first one, which its family numbered one too low.
delta.side @tensor_of_the_last_layer_again mesh {} layers 2 experts 0 stages [[2]]
    stacks [[1, "last"]] placement [0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 2] expert_ranks [] {
  %w = delta.param "l.{layer}.w" [4] : bf16 on layers(0 to 1)
  %v = delta.param "m.{layer}.w" [4] : bf16 on layers(2)
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  %b = delta.apply %v by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  // expected-note @below {{the other one is here}}
  delta.tensor "h.{layer}" = %a as [4]
  // expected-error @below {{'delta.tensor' op (tensor_c3) two tensors have the name "h.1"}}
  delta.tensor "h.{layer-1}" = %b as [4]
}

// -----

delta.side @layer_beyond_the_stack mesh {} layers 1 experts 0 stages [[1]]
    stacks [[1, "last"]] placement [0, 0, 0, 0, 0, 0, 0, 1] expert_ranks [] {
  // expected-error @below {{'delta.param' op lives on layer 2, required layers of the decoder or of one stack}}
  %w = delta.param "m.{layer}.w" [4] : bf16 on layers(1 to 2)
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  delta.tensor "t.{layer}" = %a as [4]
}

// -----

delta.side @layers_of_two_stacks mesh {} layers 1 experts 0 stages [[1]]
    stacks [[1, "last"], [1, "last"]]
    placement [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2] expert_ranks [] {
  // expected-error @below {{'delta.param' op lives on layer 2, required layers of the decoder or of one stack}}
  %w = delta.param "m.{layer}.w" [4] : bf16 on layers(1 to 2)
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  delta.tensor "t.{layer}" = %a as [4]
}

// -----

delta.side @layers_of_decoder_and_stack mesh {} layers 1 experts 0 stages [[1]]
    stacks [[1, "last"]] placement [0, 0, 0, 0, 0, 0, 0, 1] expert_ranks [] {
  // expected-error @below {{'delta.param' op lives on layer 1, required layers of the decoder or of one stack}}
  %w = delta.param "m.{layer}.w" [4] : bf16 on layers(0 to 1)
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  delta.tensor "t.{layer}" = %a as [4]
}

// -----

// expected-error @below {{'delta.side' op places 1 of 2 layers}}
delta.side @stack_without_a_place mesh {} layers 1 experts 0 stages [[1]]
    stacks [[1, "last"]] placement [0, 0, 0, 0] expert_ranks [] {
}

// -----

// expected-error @below {{'delta.side' op layers 2 and an earlier one both are local layer 0 of stage 0, chunk 0}}
delta.side @two_layers_of_a_stack_at_one_place mesh {} layers 1 experts 0 stages [[1]]
    stacks [[2, "last"]] placement [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2] expert_ranks [] {
}

// -----

delta.side @copied_tensor_is_trained mesh {} layers 1 experts 0 stages [[1]]
    placement [0, 0, 0, 0] expert_ranks [] {
  %w = delta.param "w" [4] : bf16 on first
  %a = delta.apply %w by [#delta.map<ways 1, 4 -> 4, {0 -> 0, 4 x (1, 1)}>]
  // expected-note @below {{the other one is here}}
  delta.tensor "t.0" = %a as [4]
  // expected-error @below {{'delta.passthrough' op (passthrough_c1) two tensors have the name "t.0"}}
  delta.passthrough "t.{layer}" [4] : bf16 on layers(0)
}

// -----

delta.side @copied_twice mesh {} layers 1 experts 0 stages [[1]]
    placement [0, 0, 0, 0] expert_ranks [] {
  // expected-note @below {{the other one is here}}
  delta.passthrough "t" [4] : bf16
  // expected-error @below {{'delta.passthrough' op (passthrough_c1) two tensors have the name "t"}}
  delta.passthrough "t" [4] : bf16
}
