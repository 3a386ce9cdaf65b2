// Expressions that have no value for the config at hand: the text of the
// expression, what it met, what it takes.
//
// RUN: delta-opt %s --delta-instantiate -split-input-file -verify-diagnostics

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.symbol' op config has no "hidden_size" or "n_embd"}}
  delta.symbol a = config "hidden_size" | "n_embd"
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{\"hidden_size\": null}"} {
delta.family @null_is_absent model_types [] architectures [] {
  // expected-error @below {{'delta.symbol' op config has no "hidden_size"}}
  delta.symbol a = config "hidden_size"
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{\"H\": 1.5}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.symbol' op config.H is 1.5, required an integer, a text, a boolean or a list of them}}
  delta.symbol a = config "H"
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{\"H\": 1e300}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.symbol' op config.H is 1e+300, required an integer, a text, a boolean or a list of them}}
  delta.symbol a = config "H"
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{\"H\": {\"a\": 1}}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.symbol' op config.H is {"a":1}, required an integer, a text, a boolean or a list of them}}
  delta.symbol a = config "H"
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{\"H\": [1, [2, 2.5]]}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.symbol' op config.H[1][1] is 2.5, required an integer, a text, a boolean or a list of them}}
  delta.symbol a = config "H"
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{\"H\": 7}"} {
delta.family @f model_types [] architectures [] {
  delta.symbol H = config "H"
  // expected-error @below {{'delta.symbol' op 'H / 2': 7 is not divisible by 2}}
  delta.symbol a = H / 2
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.symbol' op '8 mod (tp - 1)': divisor is 0, must be positive}}
  delta.symbol a = 8 mod (tp - 1)
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.symbol' op '9223372036854775807 + 1' overflows 64 bits}}
  delta.symbol a = 9223372036854775807 + 1
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{\"kinds\": \"M*\"}"} {
delta.family @f model_types [] architectures [] {
  delta.symbol kinds = config "kinds"
  delta.decoder 3
  // expected-error @below {{'delta.layers' op 'kinds[layer]': index 2 is outside of 2 entries}}
  delta.layers where kinds[layer] == "M" {
  }
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.symbol' op 'tp[0]' takes an integer index into a list or a string, got 1 and 0}}
  delta.symbol a = tp[0]
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{\"a\": true}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.symbol' op '(config "a") == 1' compares true with 1, required two values of one kind}}
  delta.symbol a = config "a" == 1
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{\"a\": \"8\"}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.symbol' op '(config "a") * 2' takes integers, got "8"}}
  delta.symbol a = config "a" * 2
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.symbol' op 'tp' is 1, required true or false}}
  delta.symbol a = tp and true
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  delta.decoder 2
  // expected-error @below {{'delta.if' op 'tp' is 1, required true or false}}
  delta.if tp {
  }
}
}

// -----

module attributes {delta.config = "{\"layers\": \"two\"}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.decoder' op 'config "layers"' is "two", required an integer}}
  delta.decoder config "layers"
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.symbol' op 'len(tp)' takes a list or a string, got 1}}
  delta.symbol a = len(tp)
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.symbol' op 'round_up(5, 0)': multiple is 0, must be positive}}
  delta.symbol a = round_up(5, 0)
  delta.decoder 2
}
}

// -----

module attributes {delta.config = "{}"} {
delta.family @f model_types [] architectures [] {
  // expected-error @below {{'delta.symbol' op 'min("a", 1)' takes integers, got "a" and 1}}
  delta.symbol a = min("a", 1)
  delta.decoder 2
}
}
