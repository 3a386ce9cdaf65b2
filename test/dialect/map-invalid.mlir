// RUN: delta-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{map of 0 ways, required 1 to 1024}}
delta.block @no_ways {} {m = #delta.map<ways 0, 4 -> 4>}

// -----

// expected-error @below {{map of 1025 ways, required 1 to 1024}}
delta.block @too_many_ways {} {m = #delta.map<ways 1025, 4 -> 4>}

// -----

// expected-error @below {{map from an array of -4 elements into one of 4, required numbers that are not negative}}
delta.block @negative_size {} {m = #delta.map<ways 1, -4 -> 4>}

// -----

// expected-error @below {{loop of extent 0 and strides 1, 1, required positive numbers}}
delta.block @empty_loop {} {m = #delta.map<ways 1, 4 -> 4, {0 -> 0, 0 x (1, 1)}>}

// -----

// expected-error @below {{loop of extent 2 and strides -1, 1, required positive numbers}}
delta.block @negative_stride {} {m = #delta.map<ways 1, 4 -> 4, {1 -> 0, 2 x (-1, 1)}>}

// -----

// expected-error @below {{ways 1 to 2, required some of 2 ways}}
delta.block @ways_beyond_the_last {} {m = #delta.map<ways 2, 4 -> 4, {ways 1 to 2: 0 -> 0}>}

// -----

// expected-error @below {{ways 1 to 0, required some of 2 ways}}
delta.block @no_way_of_a_piece {} {m = #delta.map<ways 2, 4 -> 4, {ways 1 to 0: 0 -> 0}>}

// -----

// expected-error @below {{expected 'x'}}
delta.block @loop_without_strides {} {m = #delta.map<ways 1, 4 -> 4, {0 -> 0, 4}>}

// -----

// expected-error @below {{expected 'ways'}}
delta.block @ways_missing {} {m = #delta.map<4 -> 4>}
