"""Train, and profile some of the steps with torch.profiler, as the argument says."""

import sys

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

KIND = sys.argv[1]
STEPS = int(sys.argv[2])
MIDDLE = 9  # the step that is profiled by itself

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 3))
optimizer = torch.optim.Adam(model.parameters())


def train() -> None:
    inputs, labels = torch.randn(16, 8), torch.randint(3, (16,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()


def updates(events: list[object]) -> int:
    return sum(event.name == "Optimizer.step#Adam.step" for event in events)


def report(profiler: profile) -> None:
    print(f"{updates(profiler.events())} updates profiled", flush=True)


if KIND == "schedule":
    times = schedule(wait=1, warmup=1, active=3, repeat=2)
    with profile(activities=[ProfilerActivity.CPU], schedule=times, on_trace_ready=report) as all_:
        for _ in range(STEPS):
            train()
            all_.step()
elif KIND == "whole":
    with profile(activities=[ProfilerActivity.CPU]) as all_:
        for _ in range(STEPS):
            train()
    report(all_)
else:
    for step in range(STEPS):
        if step != MIDDLE:
            train()
        elif KIND == "autograd":
            with torch.autograd.profiler.profile() as one:
                train()
            print(f"{updates(one.function_events)} updates profiled", flush=True)
        else:
            with profile(activities=[ProfilerActivity.CPU]) as one:
                train()
            report(one)
print("trained", flush=True)
