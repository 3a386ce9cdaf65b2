// What is wrong about a layout once the sizes are known.
//
// RUN: delta-opt %s --delta-instantiate -split-input-file -verify-diagnostics

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 1
  delta.on first {
    // expected-error @below {{(param_c5) says how an engine keeps it, in the family of a trainer}}
    %w = delta.param "w" [2] : storage holds neg_exp
    delta.tensor "t" = %w as [2]
  }
}
}

// -----

module attributes {delta.config = "{}", delta.destination = {}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 1
}
// expected-error @below {{(family_c1) binds no 'delta.decoder' op}}
// expected-note @below {{bound for the destination}}
delta.family @l engine "e" versions [] model_types [] architectures [] {
}
}

// -----

module attributes {delta.config = "{}", delta.destination = {pp = 2}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 3
}
// expected-note @below {{bound for the destination}}
delta.family @l engine "e" versions [] model_types [] architectures [] {
  // expected-error @below {{(decoder_c3) stages of [2, 2] layers, the model has 3}}
  delta.decoder 3 per_stage 2
}
}

// -----

module attributes {delta.config = "{}", delta.destination = {ep = 2, dp = 2}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 1
}
// expected-note @below {{bound for the destination}}
delta.family @l engine "e" versions [] model_types [] architectures [] {
  delta.decoder 1
  delta.layers where true {
    delta.experts 3 {
      // expected-error @below {{(param_c5) name "{layer}.w{expert}" of a stack has an '{expert}'}}
      %w = delta.param "{layer}.w{expert}" [2] : storage stacked
      delta.tensor "{layer}.{expert}" = %w as [2]
    }
  }
}
}

// -----

module attributes {delta.config = "{}", delta.destination = {}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 1
}
// expected-note @below {{bound for the destination}}
delta.family @l engine "e" versions [] model_types [] architectures [] {
  delta.decoder 1
  delta.layers where true {
    // expected-error @below {{(param_c5) stacks experts outside of 'delta.experts'}}
    %w = delta.param "{layer}.w" [2] : storage stacked
    delta.tensor "{layer}" = %w as [2]
  }
}
}

// -----

module attributes {delta.config = "{}", delta.destination = {}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 1
}
// expected-note @below {{bound for the destination}}
delta.family @l engine "e" versions [] model_types [] architectures [] {
  delta.decoder 1
  delta.layers where true {
    delta.experts 3 {
      %w = delta.param "{layer}.w" [2] : storage stacked extra 1
      delta.tensor "{layer}.{expert}" = %w as [2]
    }
    // expected-error @below {{(param_c5) slot 1 of a stack of 1 extra ones, required one of them, of the same shape, type and layers}}
    %s = delta.param "{layer}.w" [2] : storage stacked slot 1
    delta.tensor "{layer}.s" = %s as [2]
  }
}
}

// -----

module attributes {delta.config = "{}", delta.destination = {tp = 4}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 1
}
// expected-note @below {{bound for the destination}}
delta.family @l engine "e" versions [] model_types [] architectures [] {
  delta.decoder 1
  delta.on first {
    %w = delta.param "w" [11] : storage
    // expected-error @below {{(unshard_c7) 3 ways of section 1 do not divide the 4 of the others}}
    %a = delta.unshard %w dim 0 over tp sections [8, 3 ways 3]
    delta.tensor "t" = %a as [11]
  }
}
}

// -----

module attributes {delta.config = "{}", delta.destination = {
    ep = 2, dp = 2, expert_slots = array<i64: 0, 1, 0, 1>}} {
delta.family @f model_types [] architectures [] {
  delta.decoder 1
}
// expected-error @below {{expert_placement: no slot holds expert 2 of 3}}
delta.family @l engine "e" versions [] model_types [] architectures [] {
  delta.decoder 1
  delta.layers where true {
    delta.experts 3 {
      %w = delta.param "{layer}.w" [2] : storage stacked
      delta.tensor "{layer}.{expert}" = %w as [2]
    }
  }
}
}
