// RUN: delta-opt %s --delta-fold-instances | FileCheck %s

// Four numbers a layer: stage, chunk, local number, number.
// CHECK-LABEL: delta.side @even
// CHECK-SAME: placement [0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 2, 1, 0, 1, 3]
// CHECK-SAME: expert_ranks [] {
delta.side @even mesh {pp = 2} layers 4 experts 0 stages [[2], [2]] {
}

// The virtual stage is outermost; local numbers restart in every chunk.
// CHECK-LABEL: delta.side @virtual_stages
// CHECK-SAME: placement [0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 2, 1, 1, 0, 3]
delta.side @virtual_stages mesh {pp = 2, vpp = 2} layers 4 experts 0
    stages [[1, 1], [1, 1]] {
}

// CHECK-LABEL: delta.side @uneven_with_an_empty_chunk
// CHECK-SAME: placement [1, 0, 0, 0, 1, 0, 1, 1, 0, 1, 0, 2]
delta.side @uneven_with_an_empty_chunk mesh {pp = 2, vpp = 2} layers 3 experts 0
    stages [[0, 1], [2, 0]] {
}

// Two numbers an expert: ep rank, local number.
// CHECK-LABEL: delta.side @experts
// CHECK-SAME: expert_ranks [0, 0, 0, 1, 1, 0, 1, 1]
delta.side @experts mesh {ep = 2} layers 1 experts 4 stages [[1]] {
}

// A stack's rows follow all of the decoder's; its local numbers restart. `last`
// is the last chunk of the last stage.
// CHECK-LABEL: delta.side @stack_on_last
// CHECK-SAME: placement [0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 2, 1, 1, 0, 3, 1, 1, 0, 4, 1, 1, 1, 5]
delta.side @stack_on_last mesh {pp = 2, vpp = 2} layers 4 experts 0
    stages [[1, 1], [1, 1]] stacks [[2, "last"]] {
}

// `first` is chunk 0 of stage 0, also where that has no layer of the decoder.
// CHECK-LABEL: delta.side @stack_on_first
// CHECK-SAME: placement [1, 0, 0, 0, 1, 0, 1, 1, 0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 1, 4]
delta.side @stack_on_first mesh {pp = 2, vpp = 2} layers 3 experts 0
    stages [[0, 1], [2, 0]] stacks [[2, "first"]] {
}

// Two stacks of one stage each count from 0; one of no layers has no row.
// CHECK-LABEL: delta.side @several_stacks
// CHECK-SAME: placement [0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 2, 0, 0, 0, 3, 1, 0, 0, 4, 1, 0, 1, 5]
delta.side @several_stacks mesh {pp = 2} layers 2 experts 0 stages [[1], [1]]
    stacks [[1, "last"], [1, "first"], [0, "first"], [2, "last"]] {
}
