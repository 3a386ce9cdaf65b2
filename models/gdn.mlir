// Gated delta net: the linear attention of the Qwen3-Next line.

delta.import "blocks.mlir"

//===----------------------------------------------------------------------===//
// Needs: joined (the checkpoint joins q, k, v, z and b, a)
//===----------------------------------------------------------------------===//

// The trainer stacks q, k, v, z, b and a; a rank of tp holds its part of each.
// The checkpoint has q, k, v, z and b, a side by side for each key head, where
// `joined`, else q, k, v and the other three one by one. The decay and the norm
// may be stored in f32.
delta.block @gdn {
  delta.symbol nk = config "linear_num_key_heads"
  delta.symbol nv = config "linear_num_value_heads"
  delta.symbol dk = config "linear_key_head_dim"
  delta.symbol dv = config "linear_value_head_dim"
  delta.symbol kernel = config "linear_conv_kernel_dim" else 4
  delta.symbol K = nk * dk
  delta.symbol W = nv * dv
  delta.require nk > 0, "linear attention has key heads"
  delta.require nk mod tp == 0, "linear key heads are split over tp"
  delta.require nv mod tp == 0, "linear value heads are split over tp"
  delta.require nv mod nk == 0,
                "every linear key head serves equally many value heads"

  %in = delta.param "in_proj.weight" [2 * K + 2 * W + 2 * nv, H] : storage
  %all = delta.unshard %in dim 0 over tp sections [K, K, W, W, nv, nv]
  %q, %k, %v, %z, %b, %a = delta.split %all dim 0 [K, K, W, W, nv, nv]
  delta.if joined {
    %qs = delta.reshape %q [nk, dk, H]
    %ks = delta.reshape %k [nk, dk, H]
    %vs = delta.reshape %v [nk, W / nk, H]
    %zs = delta.reshape %z [nk, W / nk, H]
    %qkvz = delta.concat %qs, %ks, %vs, %zs dim 1
    delta.tensor "in_proj_qkvz.weight" = %qkvz as [2 * K + 2 * W, H]
    %bs = delta.reshape %b [nk, nv / nk, H]
    %as = delta.reshape %a [nk, nv / nk, H]
    %ba = delta.concat %bs, %as dim 1
    delta.tensor "in_proj_ba.weight" = %ba as [2 * nv, H]
  } else {
    %qkv = delta.concat %q, %k, %v dim 0
    delta.tensor "in_proj_qkv.weight" = %qkv as [2 * K + W, H]
    delta.tensor "in_proj_z.weight" = %z as [W, H]
    delta.tensor "in_proj_b.weight" = %b as [nv, H]
    delta.tensor "in_proj_a.weight" = %a as [nv, H]
  }

  %conv = delta.param "conv1d.weight" [2 * K + W, 1, kernel] : storage
  %channels = delta.unshard %conv dim 0 over tp sections [K, K, W]
  delta.tensor "conv1d.weight" = %channels as [2 * K + W, 1, kernel]

  %decay = delta.param "A_log" [nv] : storage
  %decays = delta.unshard %decay dim 0 over tp
  delta.tensor "A_log" = %decays as [nv] : storage | f32
  delta.use @split_vector with trained = "dt_bias", tensor = "dt_bias",
      size = nv

  // Centered at zero in the trainer, at one in the checkpoint.
  %norm = delta.param "out_norm.weight" [dv] : storage
  %scale = delta.add_scalar %norm 1
  delta.tensor "norm.weight" = %scale as [dv] : storage | f32
  delta.use @row_parallel with trained = "out_proj.weight",
      tensor = "out_proj.weight", out = H, in = W
}
