"""Translate the labels of Nsight Compute's details page and console to metric names."""

from __future__ import annotations

import polars as pl

# The raw page prints metric names (gpu__time_duration.sum), the details page labels (Duration).
# Only labels that mean the same metric in all versions since 2019 are here. Not translated, for
# example: SM Busy and Issue Slots Busy, whose denominator changed from active to elapsed cycles,
# and L2 Compression Ratio, which is a different metric on each architecture.
_METRICS = {
    # GPU Speed Of Light; "SOL …" and "… [%]" are the labels of 2019 to 2020
    "Duration": "gpu__time_duration.sum",
    "Elapsed Cycles": "gpc__cycles_elapsed.max",
    "SM Frequency": "gpc__cycles_elapsed.avg.per_second",
    "DRAM Frequency": "dram__cycles_elapsed.avg.per_second",
    "SM Active Cycles": "sm__cycles_active.avg",
    "Compute (SM) Throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "Compute (SM) [%]": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "SM [%]": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "Memory [%]": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "DRAM Throughput": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "SOL DRAM": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "L1/TEX Cache Throughput": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "SOL L1/TEX Cache": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "L2 Cache Throughput": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "SOL L2 Cache": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    # Compute and Memory Workload Analysis
    "Executed Ipc Active": "sm__inst_executed.avg.per_cycle_active",
    "Executed Ipc Elapsed": "sm__inst_executed.avg.per_cycle_elapsed",
    "Issued Ipc Active": "sm__inst_issued.avg.per_cycle_active",
    "Mem Busy": "gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed",
    "Max Bandwidth": "gpu__compute_memory_request_throughput.avg.pct_of_peak_sustained_elapsed",
    "Mem Pipes Busy": "sm__memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "L1/TEX Hit Rate": "l1tex__t_sector_hit_rate.pct",
    "L2 Hit Rate": "lts__t_sector_hit_rate.pct",
    # Scheduler, Warp State and Instruction Statistics, Source Counters
    "Active Warps Per Scheduler": "smsp__warps_active.avg.per_cycle_active",
    "Eligible Warps Per Scheduler": "smsp__warps_eligible.avg.per_cycle_active",
    "Issued Warp Per Scheduler": "smsp__issue_active.avg.per_cycle_active",
    "One or More Eligible": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "No Eligible": "smsp__issue_inst0.avg.pct_of_peak_sustained_active",
    "Warp Cycles Per Issued Instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
    "Warp Cycles Per Executed Instruction": "smsp__average_warps_active_per_inst_executed.ratio",
    "Avg. Active Threads Per Warp": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "Avg. Not Predicated Off Threads Per Warp": (
        "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"
    ),
    "Executed Instructions": "smsp__inst_executed.sum",
    "Issued Instructions": "smsp__inst_issued.sum",
    "Avg. Executed Instructions Per Scheduler": "smsp__inst_executed.avg",
    "Avg. Issued Instructions Per Scheduler": "smsp__inst_issued.avg",
    "Branch Instructions": "smsp__inst_executed_op_branch.sum",
    "Branch Efficiency": "smsp__sass_average_branch_targets_threads_uniform.pct",
    "Avg. Divergent Branches": "smsp__sass_branch_targets_threads_divergent.avg",
    # Launch Statistics
    "Grid Size": "launch__grid_size",
    "Block Size": "launch__block_size",
    "Cluster Size": "launch__cluster_size",
    "Threads": "launch__thread_count",
    "Waves Per SM": "launch__waves_per_multiprocessor",
    "Registers Per Thread": "launch__registers_per_thread",
    "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
    "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
    "Driver Shared Memory Per Block": "launch__shared_mem_per_block_driver",
    "Shared Memory Configuration Size": "launch__shared_mem_config_size",
    "Function Cache Configuration": "launch__func_cache_config",
    "Stack Size": "launch__stack_size",
    "# SMs": "launch__sm_count",
    # Occupancy
    "Achieved Occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "Achieved Active Warps Per SM": "sm__warps_active.avg.per_cycle_active",
    "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "Theoretical Active Warps per SM": "sm__maximum_warps_avg_per_active_cycle",
    "Block Limit SM": "launch__occupancy_limit_blocks",
    "Block Limit Registers": "launch__occupancy_limit_registers",
    "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
    "Block Limit Warps": "launch__occupancy_limit_warps",
    "Block Limit Barriers": "launch__occupancy_limit_barriers",
    # GPU and Memory Workload Distribution
    "Average SM Active Cycles": "sm__cycles_active.avg",
    "Average SMSP Active Cycles": "smsp__cycles_active.avg",
    "Average L1 Active Cycles": "l1tex__cycles_active.avg",
    "Average L2 Active Cycles": "lts__cycles_active.avg",
    "Average DRAM Active Cycles": "dram__cycles_active.avg",
    "Total SM Elapsed Cycles": "sm__cycles_elapsed.sum",
    "Total SMSP Elapsed Cycles": "smsp__cycles_elapsed.sum",
    "Total L1 Elapsed Cycles": "l1tex__cycles_elapsed.sum",
    "Total L2 Elapsed Cycles": "lts__cycles_elapsed.sum",
    "Total DRAM Elapsed Cycles": "dram__cycles_elapsed.sum",
}
# This label is used for two metrics with different units.
_MEMORY_THROUGHPUT = "Memory Throughput"
_MEMORY_SHARE = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
_MEMORY_RATE = "dram__bytes.sum.per_second"


def metric_name(printed: pl.Expr, unit: pl.Expr) -> pl.Expr:
    """Return metric names for labels with a base unit; other texts remain unchanged."""
    throughput = pl.when(unit == "%").then(pl.lit(_MEMORY_SHARE)).otherwise(pl.lit(_MEMORY_RATE))
    return (
        pl.when(printed == _MEMORY_THROUGHPUT).then(throughput).otherwise(printed.replace(_METRICS))
    )
