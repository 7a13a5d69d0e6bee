// SPDX-License-Identifier: Apache-2.0
// What people type who know torchrun, mpirun, srun, DeepSpeed or accelerate: options that are none of `run`, and
// torchrun's environment variables.
#pragma once

#include <array>
#include "command.hpp"
#include "options.hpp"

namespace gpuwarden::cli {

inline constexpr const char* kEnvironmentHint = "write --env NAME=VALUE with --hosts; here a job has your environment";
inline constexpr const char* kWholeJobHint =
    "write -n N for GPUs of this machine, --hosts a,b --gpus N for GPUs of many, --slurm --nodes N --gpus-per-node N";

/// torchrun's options in their spelling of 2.13 first (torch/distributed/run.py, get_args_parser), then those of
/// torch.distributed.launch, mpirun (OpenMPI, MPICH), srun, deepspeed and accelerate launch.
inline constexpr auto kOtherLaunchers = std::to_array<Elsewhere>({
    {"--monitor-interval", "the end of a rank is noticed at once", Elsewhere::Kind::needless_value},
    {"--start-method", "ranks are programs of their own, whatever the method", Elsewhere::Kind::needless_value},
    {"--event-log-handler", "--report FILE has what happened, as JSON", Elsewhere::Kind::needless_value},
    {"--local-addr", "nodes meet at the first one's address: --master-addr, --rdzv-endpoint",
     Elsewhere::Kind::needless_value},
    {"--signals-to-handle", "signals are passed on to the ranks, these and others", Elsewhere::Kind::needless_value},
    {"--shutdown-timeout", "write --grace DURATION"},
    {"--logs-specs", "write --log-dir DIR, with --redirects and --tee for single streams"},
    {"--duplicate-stdout-filters", "write --log-dir DIR --tee 1, and filter the files that it keeps"},
    {"--duplicate-stderr-filters", "write --log-dir DIR --tee 2, and filter the files that it keeps"},

    {"--use-env", "ranks always find LOCAL_RANK in their environment", Elsewhere::Kind::needless},

    {"-np", "write --nproc-per-node N: N ranks, each with a GPU"},
    {"--np", "write --nproc-per-node N: N ranks, each with a GPU"},
    {"-N", "write --nproc-per-node N for ranks; --nnodes N, or with --slurm --nodes N, for nodes"},
    {"-ppn", "write --nproc-per-node N"},
    {"--ppn", "write --nproc-per-node N"},
    {"-npernode", "write --nproc-per-node N"},
    {"--npernode", "write --nproc-per-node N"},
    {"-H", "write --hosts a:4,b:4"},
    {"--host", "write --hosts a:4,b:4"},
    {"-hostfile", "write --hostfile FILE"},
    {"-machinefile", "write --hostfile FILE"},
    {"--machinefile", "write --hostfile FILE"},
    {"-x", "write --env NAME or --env NAME=VALUE with --hosts; here a job has your environment"},
    {"-genv", kEnvironmentHint},
    {"--wdir", "write --chdir DIR with --hosts; here a job runs in this folder"},
    {"-wdir", "write --chdir DIR with --hosts; here a job runs in this folder"},
    {"--bind-to", "write --numa-binding node, socket, exclusive or core-complex"},
    {"-bind-to", "write --numa-binding node, socket, exclusive or core-complex"},
    {"--map-by", "write --numa-binding node, socket, exclusive or core-complex"},
    {"--output-filename", "write --log-dir DIR"},
    {"--mca", "MPI has no part in this: a program of MPI's is started by mpirun"},
    {"--allow-run-as-root", "anybody may run a job", Elsewhere::Kind::needless},
    {"--oversubscribe", "--nproc-per-node may be greater than the number of GPUs that -n says",
     Elsewhere::Kind::needless},
    {"--tag-output", "the lines of several ranks begin with their rank", Elsewhere::Kind::needless},

    {"--ntasks", "write --nproc-per-node N: ranks of each node"},
    {"--ntasks-per-node", "write --nproc-per-node N"},
    {"--gres", "write -n N; with --slurm --gpus-per-node N, and --gpu-type"},
    {"--gpus-per-task", "write --nproc-per-node N --one-gpu-per-rank"},
    {"--ntasks-per-gpu", "write -n N --nproc-per-node gpu for one on each GPU, -n 1 --nproc-per-node N for N on one"},
    {"--gpus-per-socket", kWholeJobHint},
    {"--gpu-bind", "write --one-gpu-per-rank"},
    {"--cpu-bind", "write --numa-binding node, socket, exclusive or core-complex"},
    {"-p", "write --slurm --partition NAME"},
    {"-A", "write --slurm --account NAME"},
    {"-J", "write --slurm --job-name NAME"},
    {"-w", "write --slurm --nodelist NODES"},
    {"-c", "write --slurm --cpus-per-task N"},
    {"-C", "write --slurm --constraint FEATURES"},
    {"-o", "write --log-dir DIR"},
    {"--output", "write --log-dir DIR"},
    {"-e", "write --log-dir DIR"},
    {"--error", "write --log-dir DIR"},
    {"--export", kEnvironmentHint},
    {"--pty", "write gpuwarden slurm shell"},
    {"--mpi", "MPI has no part in this: a program of MPI's is started by srun"},
    {"--label", "the lines of several ranks begin with their rank", Elsewhere::Kind::needless},
    {"--unbuffered", "lines are shown as they come", Elsewhere::Kind::needless},
    {"--kill-on-bad-exit", "the first rank that fails ends the job", Elsewhere::Kind::needless},

    {"--num-nodes", "write --nnodes N, or --hosts a:4,b:4"},
    {"--include", "write --gpu-ids 0,2, or with --hosts a:2,b:2"},
    {"--launcher", "write --hosts a:4,b:4 for ssh, --slurm for Slurm"},
    {"--num-processes", "write --nproc-per-node N: ranks of each node, each with a GPU"},
    {"--num-machines", "write --nnodes N"},
    {"--machine-rank", "write --node-rank R"},
    {"--main-process-ip", "write --master-addr HOST"},
    {"--main-process-port", "write --master-port PORT"},
    {"--multi-gpu", "write --nproc-per-node N: N ranks, each with a GPU; or --all --nproc-per-node gpu"},
    {"--cpu", "write --device cpu"},
    {"--config-file", "write --config FILE: gpuwarden's own (docs/cli.md), which has what accelerate's has"},
    {"--num-cpu-threads-per-process", "set OMP_NUM_THREADS, or write --numa-binding node"},
});

/// What torchrun's variables (PET_NNODES ...) say, behind the command line and before --config. Not where hosts or
/// Slurm are named, which are no jobs of torchrun's; of the nodes' meeting place not where another one was given. Fails
/// as the parser does, naming the variable.
Result<void> fall_back_to_torchrun_environment(Context& context);

/// What is said where the GPUs of `selection` cannot be had: where --nproc-per-node alone counts them, that ranks can
/// share one as well.
Error refusal_of(const Args& args, const Selection& selection, Error error);

/// DeepSpeed's --num_gpus N is a rank for each GPU, while --num-gpus is for a command of one process. Fails with
/// invalid_argument where it is typed with DeepSpeed's underscore and nothing says how many ranks.
Result<void> refuse_deepspeeds_count(const Context& context);

}  // namespace gpuwarden::cli
