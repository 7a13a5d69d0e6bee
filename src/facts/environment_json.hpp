// SPDX-License-Identifier: Apache-2.0
// The environment's description for the JSON codec. Included by json.cpp alone.
#pragma once

#include "facts/archive.hpp"
#include "gpuwarden/facts/environment.hpp"

namespace gpuwarden::facts {

template <class A>
static void describe(A& a, KernelDriver& record) {
  a.field("loaded_version", record.loaded_version);
  a.field("on_disk_version", record.on_disk_version);
  a.field("library_version", record.library_version);
  a.field("flavour", record.flavour);
  a.field("signer", record.signer);
  a.field("loaded_modules", record.loaded_modules);
  a.field("blacklisted", record.blacklisted);
  a.field("parameters", record.parameters);
  a.field("dkms_version", record.dkms_version);
  a.field("dkms_built_for", record.dkms_built_for);
  a.field("firmware_version", record.firmware_version);
  a.field("package", record.package);
}

template <class A>
static void describe(A& a, DeviceNode& record) {
  a.field("path", record.path);
  a.field("exists", record.exists);
  a.field("openable", record.openable);
  a.field("refusal", record.refusal);
  a.field("problem", record.problem);
  a.field("owner", record.owner);
  a.field("mode", record.mode);
}

template <class A>
static void describe(A& a, Library& record) {
  a.field("name", record.name);
  a.field("version", record.version);
  a.field("path", record.path);
  a.field("origin", record.origin);
}

template <class A>
static void describe(A& a, Toolkit& record) {
  a.field("version", record.version);
  a.field("path", record.path);
  a.field("origin", record.origin);
  a.field("nvcc", record.nvcc);
  a.field("architectures", record.architectures);
  a.field("active", record.active);
  a.field("libraries", record.libraries);
  a.field("named_by", record.named_by);
}

template <class A>
static void describe(A& a, Compiler& record) {
  a.field("name", record.name);
  a.field("version", record.version);
  a.field("path", record.path);
}

template <class A>
static void describe(A& a, PythonPackage& record) {
  a.field("name", record.name);
  a.field("version", record.version);
  a.field("manager", record.manager);
}

template <class A>
static void describe(A& a, PythonEnvironment& record) {
  a.field("path", record.path);
  a.field("kind", record.kind);
  a.field("version", record.version);
  a.field("active", record.active);
  a.field("packages", record.packages);
  a.field("torch_cuda", record.torch_cuda);
  a.field("torch_rocm", record.torch_rocm);
  a.field("torch_architectures", record.torch_architectures);
  a.field("torch_debug", record.torch_debug);
  a.field("cuda_available", record.cuda_available);
  a.field("cuda_runtime", record.cuda_runtime);
  a.field("cudnn", record.cudnn);
  a.field("nccl", record.nccl);
  a.field("problem", record.problem);
}

template <class A>
static void describe(A& a, ContainerFacts& record) {
  a.field("inside", record.inside);
  a.field("engines", record.engines);
  a.field("toolkit_version", record.toolkit_version);
  a.field("runtimes", record.runtimes);
  a.field("default_runtime", record.default_runtime);
  a.field("cdi_specifications", record.cdi_specifications);
  a.field("kubernetes_device_plugin", record.kubernetes_device_plugin);
}

template <class A>
static void describe(A& a, Service& record) {
  a.field("name", record.name);
  a.field("state", record.state);
  a.field("version", record.version);
}

template <class A>
static void describe(A& a, NetworkInterface& record) {
  a.field("name", record.name);
  a.field("up", record.up);
  a.field("physical", record.physical);
  a.field("default_route", record.default_route);
  a.field("megabits_per_second", record.megabits);
}

template <class A>
static void describe(A& a, RdmaAdapter& record) {
  a.field("name", record.name);
  a.field("active", record.active);
  a.field("link_layer", record.link_layer);
  a.field("gigabits_per_second", record.gigabits);
}

template <class A>
static void describe(A& a, Variable& record) {
  a.field("name", record.name);
  a.field("value", record.value);
}

template <class A>
static void describe(A& a, FileSystem& record) {
  a.field("mount", record.mount);
  a.field("total_bytes", record.total);
  a.field("free_bytes", record.free);
}

template <class A>
static void describe(A& a, Host& record) {
  a.field("distribution", record.distribution);
  a.field("distribution_version", record.distribution_version);
  a.field("distribution_name", record.distribution_name);
  a.field("kernel", record.kernel);
  a.field("installed_kernels", record.installed_kernels);
  a.field("kernel_headers", record.kernel_headers);
  a.field("kernel_command_line", record.kernel_command_line);
  a.field("machine", record.machine);
  a.field("libc", record.libc);
  a.field("cpu_model", record.cpu_model);
  a.field("cpus", record.cpus);
  a.field("load_average", record.load_average);
  a.field("cpus_allowed", record.cpus_allowed);
  a.field("sockets", record.sockets);
  a.field("numa_nodes", record.numa_nodes);
  a.field("numa_balancing", record.numa_balancing);
  a.field("memory.total_bytes", record.memory_total);
  a.field("memory.available_bytes", record.memory_available);
  a.field("memory.limit_bytes", record.memory_limit);
  a.field("memory.swap_bytes", record.swap_total);
  a.field("memlock_limit_bytes", record.memlock_limit);
  a.field("open_files_limit", record.open_files_limit);
  a.field("hugepages_total", record.hugepages_total);
  a.field("transparent_hugepages", record.transparent_hugepages);
  a.field("secure_boot", record.secure_boot);
  a.field("iommu", record.iommu);
  a.field("acs_bridges", record.acs_bridges);
  a.field("hypervisor", record.hypervisor);
  a.field("wsl", record.wsl);
  a.field("groups", record.groups);
  a.field("root", record.root);
  a.field("file_systems", record.file_systems);
}

template <class A>
static void describe(A& a, SlurmNode& record) {
  a.field("name", record.name);
  a.field("count", record.count);
  a.field("state", record.state);
  a.field("reason", record.reason);
  a.field("partitions", record.partitions);
  a.field("gres", record.gres);
  a.field("cpus", record.cpus);
  a.field("gpus", record.gpus);
  a.field("gpus_allocated", record.gpus_allocated);
}

template <class A>
static void describe(A& a, SlurmJob& record) {
  a.field("id", record.id);
  a.field("name", record.name);
  a.field("state", record.state);
  a.field("reason", record.reason);
  a.field("partition", record.partition);
  a.field("nodes", record.nodes);
  a.field("gpus", record.gpus);
  a.field("gpu_places", record.gpu_places);
  a.field("exit_code", record.exit_code);
}

template <class A>
static void describe(A& a, SlurmPartition& record) {
  a.field("name", record.name);
  a.field("state", record.state);
  a.field("time_limit", record.time_limit);
  a.field("nodes", record.nodes);
  a.field("gpus", record.gpus);
}

template <class A>
static void describe(A& a, SlurmCpus& record) {
  a.field("allocated", record.allocated);
  a.field("idle", record.idle);
  a.field("other", record.other);
  a.field("total", record.total);
}

template <class A>
static void describe(A& a, SlurmFacts& record) {
  a.field("version", record.version);
  a.field("job_id", record.job_id);
  a.field("granted_gpus", record.granted_gpus);
  a.field("gpus_requested", record.gpus_requested);
  a.field("constrain_devices", record.constrain_devices);
  a.field("gres", record.gres);
  a.field("cluster", record.cluster);
  a.field("nodes", record.nodes);
  a.field("jobs", record.jobs);
  a.field("partitions", record.partitions);
  a.field("cpus", record.cpus);
}

template <class A>
static void describe(A& a, ReportedMessage& record) {
  a.field("kind", record.kind);
  a.field("text", record.text);
  a.field("value", record.value);
  a.field("line", record.line);
}

template <class A>
static void describe(A& a, NotProbed& record) {
  a.field("what", record.what);
  a.field("reason", record.reason);
}

template <class A>
static void describe(A& a, Environment& record) {
  a.field("driver", record.driver);
  a.field("device_nodes", record.device_nodes);
  a.field("libraries", record.libraries);
  a.field("toolkits", record.toolkits);
  a.field("compilers", record.compilers);
  a.field("compilers_sought", record.compilers_sought);
  a.field("pythons", record.pythons);
  a.field("containers", record.containers);
  a.field("services", record.services);
  a.field("variables", record.variables);
  a.field("host", record.host);
  a.field("interfaces", record.interfaces);
  a.field("rdma_adapters", record.rdma_adapters);
  a.field("slurm", record.slurm);
  a.field("messages", record.messages);
  a.field("not_probed", record.not_probed);
}

}  // namespace gpuwarden::facts
