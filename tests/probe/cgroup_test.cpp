// SPDX-License-Identifier: Apache-2.0
#include "probe/cgroup.hpp"

namespace gpuwarden::probe {
namespace {

const std::string kId = "3726184226f5d3147c25fdeab5b60097e378e8a720503a5e19ecfdf29f869860";
const std::string kOther = "aa9bf0ae4c4cb5e0e3bd5f5b6bd7e8f0e9a8d7c6b5a4938271605f4e3d2c1b0a";
const std::string kUid = "90d81341-92de-11e7-8cf2-507b9d4141fa";
const std::string kUidInUnit = "90d81341_92de_11e7_8cf2_507b9d4141fa";

struct Case {
  const char* what;
  std::string text;
  CgroupOwner owner;
};

CgroupOwner container() { return {"3726184226f5", std::nullopt, std::nullopt}; }
CgroupOwner in_pod() { return {"3726184226f5", kUid, std::nullopt}; }
CgroupOwner job(const char* id) { return {std::nullopt, std::nullopt, id}; }

void expect(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const CgroupOwner owner = owner_from_cgroup(c.text);
    EXPECT_EQ(owner.container, c.owner.container) << c.what << "\n" << c.text;
    EXPECT_EQ(owner.pod, c.owner.pod) << c.what << "\n" << c.text;
    EXPECT_EQ(owner.slurm_job, c.owner.slurm_job) << c.what << "\n" << c.text;
  }
}

TEST(Cgroup, ContainersAreToldByTheirIdWhateverRunsThem) {
  expect({
      {"docker, v1, cgroupfs", "12:pids:/docker/" + kId + "\n11:devices:/docker/" + kId + "\n", container()},
      {"docker, v1, systemd", "10:devices:/system.slice/docker-" + kId + ".scope\n", container()},
      {"docker, v2, systemd", "0::/system.slice/docker-" + kId + ".scope\n", container()},
      {"docker, rootless", "0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + kId + ".scope\n",
       container()},
      {"docker with a parent group", "5:cpu:/docker-ce/docker/" + kId + "\n", container()},
      {"docker on old Debian", "10:net_prio:/" + kId + "\n", container()},
      {"systemd within docker", "0::/system.slice/docker-" + kId + ".scope/init.scope\n", container()},
      {"podman, v2, systemd", "0::/machine.slice/libpod-" + kId + ".scope/container\n", container()},
      {"podman, rootless",
       "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + kId + ".scope/container\n", container()},
      {"podman, cgroupfs", "9:memory:/libpod_parent/libpod-" + kId + "\n", container()},
      {"podman, in a podman pod",
       "0::/machine.slice/machine-libpod_pod_" + kOther + ".slice/libpod-" + kId + ".scope/container\n", container()},
      {"nerdctl", "0::/system.slice/nerdctl-" + kId + ".scope\n", container()},
      {"containerd alone", "0::/default/" + kId + "\n", container()},
      {"ECS on EC2", "9:perf_event:/ecs/task-arn/" + kId + "\n", container()},
      {"ECS on Fargate",
       "1:name=systemd:/ecs/55091c13b8cf4801b527f4601742204d/34dc0b5e626f2c5c4c5170e34b10e765-1234567890\n",
       {"34dc0b5e626f", std::nullopt, std::nullopt}},
  });
}

TEST(Cgroup, PodsAreToldByTheirUid) {
  const std::string burstable =
      "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + kUidInUnit + ".slice/";
  const CgroupOwner static_pod{"3726184226f5", "f2a6a6a1b5c1c2f1e0d9c8b7a6958473", std::nullopt};
  expect({
      {"cgroupfs, best effort", "11:devices:/kubepods/besteffort/pod" + kUid + "/" + kId + "\n", in_pod()},
      {"cgroupfs, guaranteed", "11:devices:/kubepods/pod" + kUid + "/" + kId + "\n", in_pod()},
      {"systemd, containerd, v2", "0::" + burstable + "cri-containerd-" + kId + ".scope\n", in_pod()},
      {"systemd, CRI-O, v2", "0::" + burstable + "crio-" + kId + ".scope\n", in_pod()},
      {"systemd, CRI-O, a group below", "0::" + burstable + "crio-" + kId + ".scope/container\n", in_pod()},
      {"cgroupfs, CRI-O", "4:cpuset:/kubepods/burstable/pod" + kUid + "/crio-" + kId + "\n", in_pod()},
      {"systemd, docker, v1", "6:freezer:" + burstable + "docker-" + kId + ".scope\n", in_pod()},
      {"systemd, guaranteed",
       "0::/kubepods.slice/kubepods-pod" + kUidInUnit + ".slice/cri-containerd-" + kId + ".scope\n", in_pod()},
      {"systemd names without systemd's driver",
       "7:memory:/system.slice/containerd.service/kubepods-burstable-pod" + kUidInUnit +
           ".slice:cri-containerd:" + kId + "\n",
       in_pod()},
      {"kind: Kubernetes in docker",
       "0::/docker/" + kOther +
           "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
           "kubelet-kubepods-burstable-pod" +
           kUidInUnit + ".slice/cri-containerd-" + kId + ".scope\n",
       in_pod()},
      {"a pod from a file", "0::/kubepods/burstable/podf2a6a6a1b5c1c2f1e0d9c8b7a6958473/" + kId + "\n", static_pod},
      {"seen from a sibling's namespace",
       "0::/../../kubepods-besteffort-pod" + kUidInUnit + ".slice/cri-containerd-" + kId + ".scope\n", in_pod()},
      {"the pod alone", "0::/kubepods/burstable/pod" + kUid + "\n", {std::nullopt, kUid, std::nullopt}},
  });
}

TEST(Cgroup, SlurmJobsAreToldByTheirId) {
  expect({
      {"v1", "11:memory:/slurm/uid_1000/job_4711/step_0/task_0\n1:name=systemd:/system.slice/slurmd.service\n",
       job("4711")},
      {"v1, several slurmd", "8:cpuset:/slurm_node01/uid_1000/job_4711/step_batch\n", job("4711")},
      {"v2", "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n", job("4711")},
      {"v2, batch", "0::/system.slice/slurmstepd.scope/job_4711/step_batch/user/task_special\n", job("4711")},
      {"v2, several slurmd", "0::/system.slice/node01_slurmstepd.scope/job_4711/step_0/user/task_0\n", job("4711")},
      {"v2 since 26.05", "0::/system.slice/slurmstepd.scope/s5K1KKYAYG5D00/step_0/user/task_0\n",
       job("s5K1KKYAYG5D00")},
      {"a container in a job",
       "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0/libpod-" + kId + ".scope\n",
       {"3726184226f5", std::nullopt, "4711"}},
      {"the hierarchies disagree",
       "12:pids:/user.slice/user-1000.slice\n9:freezer:/slurm/uid_1000/job_12/step_extern\n0::/user.slice\n",
       job("12")},
  });
}

TEST(Cgroup, WhatBelongsToNobodyIsToldOfNobody) {
  expect({
      {"empty", "", {}},
      {"the root", "0::/\n", {}},
      {"a login", "0::/user.slice/user-1000.slice/session-3.scope\n", {}},
      {"a desktop program", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-firefox-2211.scope\n", {}},
      {"a service", "1:name=systemd:/system.slice/nvidia-persistenced.service\n0::/system.slice/ssh.service\n", {}},
      {"podman's watcher", "0::/machine.slice/libpod-conmon-" + kId + ".scope\n", {}},
      {"CRI-O's watcher", "0::/system.slice/crio-conmon-" + kId + ".scope\n", {}},
      {"docker itself", "0::/system.slice/docker.service\n", {}},
      {"somebody's job_1", "0::/user.slice/job_1\n", {}},
      {"slurmd itself", "0::/system.slice/slurmd.service\n", {}},
      {"slurm's own steps", "0::/system.slice/slurmstepd.scope/system\n", {}},
      {"an id that is too short", "0::/docker/3726184226f5d3147c25fdea\n", {}},
      {"upper-case letters are no id", "0::/docker/" + std::string(64, 'A') + "\n", {}},
      {"no UID behind pod", "0::/kubepods/burstable/pod-of-peas\n", {}},
      {"LXC", "0::/lxc.payload.web1/init.scope\n", {}},
      {"damaged", "0\n::\n:", {}},
  });
}

}  // namespace
}  // namespace gpuwarden::probe
