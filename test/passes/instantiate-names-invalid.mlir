// Holes of names that cannot be filled.
//
// RUN: delta-opt %s --delta-instantiate -split-input-file -verify-diagnostics

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    // expected-error @below {{'delta.param' op name "w{layer" has an open hole}}
    %w = delta.param "w{layer" [8] : storage
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    // expected-error @below {{'delta.param' op hole '{layer}' is outside of 'delta.layers'}}
    %w = delta.param "w{layer}" [8] : storage
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    // expected-error @below {{'delta.param' op hole '{expert}' is outside of 'delta.experts'}}
    %w = delta.param "w{layer}.{expert}" [8] : storage
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    // expected-error @below {{'delta.param' op hole '{trained}' is unknown, required 'layer', 'expert' or a symbol with a text or an integer}}
    %w = delta.param "{trained}" [8] : storage
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.symbol tied = true
  delta.on first {
    // expected-error @below {{'delta.param' op hole '{tied}' is true, required 'layer', 'expert' or a symbol with a text or an integer}}
    %w = delta.param "{tied}" [8] : storage
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    // expected-error @below {{'delta.param' op hole '{layer+x}' adds 'x', required an integer from 0 to 1048576}}
    %w = delta.param "{layer+x}" [8] : storage
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.layers where true {
    // expected-error @below {{'delta.param' op hole '{layer+99999999999999999999}' adds '99999999999999999999', required an integer from 0 to 1048576}}
    %w = delta.param "{layer+99999999999999999999}" [8] : storage
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.symbol name = "n"
  delta.on first {
    // expected-error @below {{'delta.param' op hole '{name+1}' adds to the text "n"}}
    %w = delta.param "{name+1}" [8] : storage
  }
}
}

// -----

// A block cannot hand its own name on: the hole would hold itself.
module attributes {delta.config = "{}"} {
delta.block @inner {
  // expected-error @below {{'delta.param' op hole '{trained}' stands for a text that needs it again}}
  %w = delta.param "{trained}" [8] : storage
}
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  delta.on first {
    // expected-note @below {{used here}}
    delta.use @inner with trained = "{trained}"
  }
}
}
