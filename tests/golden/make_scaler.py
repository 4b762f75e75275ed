"""Makes scaler.json and scaler.safetensors: what PyTorch's GradScaler makes of the weights and gradients of
optimizers.safetensors where some steps overflow (README.md). Writes into this folder, or into one named on the command
line.
"""

import pathlib
import sys

import torch
from safetensors.numpy import load_file, save_file

from make_goldens import write_json

NAMES = ["embed", "h.0.wide", "h.0.tall", "h.0.bias"]
N_STEPS = 14
# Step: what one of its gradients is.
SPOILT = {0: float("inf"), 1: float("-inf"), 6: float("nan"), 12: float("inf")}
SCALER = dict(init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=3)
ADAMW = dict(lr=0.01, betas=(0.8, 0.95), eps=1e-6)
DECAY = 0.1
GRAD_CLIP = 5.0


def main():
    torch.set_num_threads(1)
    here = pathlib.Path(__file__).parent
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here
    arrays = {name: torch.from_numpy(value) for name, value in load_file(here / "optimizers.safetensors").items()}
    params = {name: torch.nn.Parameter(arrays[name].clone()) for name in NAMES}
    groups = [dict(params=[p for p in params.values() if p.dim() == 2], weight_decay=DECAY),
              dict(params=[p for p in params.values() if p.dim() == 1], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, **ADAMW)
    scaler = torch.amp.GradScaler("cpu", **SCALER)
    steps = []
    for step in range(N_STEPS):
        scale = scaler.scale(torch.ones(1)).item()
        for name, param in params.items():
            param.grad = arrays[f"grad.{step % 4}.{name}"] * scale
        if step in SPOILT:
            params["h.0.wide"].grad[3, 5] = SPOILT[step]
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(params.values(), GRAD_CLIP).item()
        scaler.step(optimizer)
        scaler.update()
        steps.append(dict(spoilt=str(SPOILT[step]) if step in SPOILT else None, scale=scaler.get_scale(),
                          norm=None if step in SPOILT else norm))
    save_file({name: param.detach().numpy() for name, param in params.items()}, out / "scaler.safetensors")
    settings = dict(lr=ADAMW["lr"], beta1=0.8, beta2=0.95, eps=ADAMW["eps"], weight_decay=DECAY, grad_clip=GRAD_CLIP)
    write_json(out / "scaler.json", dict(scaler=SCALER, settings=settings, steps=steps))


main()
