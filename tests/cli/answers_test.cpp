// SPDX-License-Identifier: Apache-2.0
// Every command and action of the command table with --json: its answer has the frame that docs/json.md promises, and
// that page names each of its keys.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/source_folder.hpp"

namespace gpuwarden::testing {
namespace {

using Words = std::vector<std::string>;

/// What a command does with --json.
struct Expected {
  enum class Kind { answers, refuses, starts_something, changes_the_machine, is_words };
  Kind kind = Kind::answers;
  Words words;            ///< of one that answers
  bool simulated = true;  ///< what its answer says
};

Expected answers(Words words, bool simulated = true) { return {Expected::Kind::answers, std::move(words), simulated}; }
const Expected kRefuses{Expected::Kind::refuses, {}, false};
/// What another program prints is no answer of its own.
const Expected kStartsSomething{Expected::Kind::starts_something, {}, false};
const Expected kIsWords{Expected::Kind::is_words, {}, false};
const Expected kChangesTheMachine{Expected::Kind::changes_the_machine, {}, false};

class Answers : public Program {
 protected:
  Answers() {
    environment_["GPUWARDEN_SIMULATE"] = "t4x1";
    environment_["PATH"] = (dir_ / "bin").string() + ":" + environment_["PATH"];
    program("scontrol",
            "case \"$*\" in\n"
            "  'show config') echo 'ClusterName = lab'; echo 'SelectType = select/cons_tres' ;;\n"
            "  'show node'*) echo 'NodeName=a State=IDLE Gres=gpu:t4:4 GresUsed=gpu:t4:1 Partitions=gpu CPUTot=8 "
            "CPUAlloc=1' ;;\n"
            "  'show job'*) echo 'JobId=12 JobName=train UserId=ada(7) JobState=PENDING Reason=Resources Partition=gpu "
            "NumNodes=1' ;;\n"
            "esac\n");
    program("sinfo", "echo 'gpu*|up|infinite|n/a'\n");
    program("squeue", "echo '12|ada|gpu|PENDING|Resources|2|gres:gpu:h100:8|N/A|N/A|1:00|0:00||train'\n");
    program("srun", "exit 1\n");
  }

  void program(const std::string& name, const std::string& script) const {
    ::chmod(file("bin/" + name, "#!/bin/sh\n" + script).c_str(), 0755);
  }

  /// "list", "env list" ...: those of the command table, as the completion for fish tells them.
  Words commands() const {
    Words all;
    std::map<std::string, Words> actions;
    const auto script = run({"completion", "fish"}).standard_output;
    for (const auto line : split(script, '\n')) {
      const auto words = split_words(line);
      if (line.starts_with("complete -c gpuwarden -n __gpuwarden_start -f -a ") && words.size() > 7)
        all.emplace_back(words[7]);
      constexpr std::string_view kAction = "complete -c gpuwarden -n '__gpuwarden_action ";
      if (!line.starts_with(kAction)) continue;
      const auto parts = split(line, '\'');
      for (const auto action : split_words(parts.at(3)))
        actions[std::string(split_words(parts.at(1)).at(1))].emplace_back(action);
    }
    Words result;
    for (const std::string& command : all) {
      if (!actions.contains(command)) result.push_back(command);
      for (const std::string& action : actions[command]) result.push_back(command + " " + action);
    }
    return result;
  }

  /// --json before what another program is given.
  Completed with_json(Words words) const {
    words.insert(std::ranges::find(words, "--"), "--json");
    return run(std::move(words));
  }

  std::map<std::string, Expected> table() const;
  void expect_answer(const std::string& command, const Expected& expected) const;
};

std::map<std::string, Expected> Answers::table() const {
  const std::string trace = file("trace.csv", "op,id,size\na,1,64\nf,1,64\n");
  const std::string log = file("run.log", "RuntimeError: CUDA error: out of memory\n");
  const std::string recording = (dir_ / "a.db").string();
  return {
      {"list", answers({"list"})},
      {"top", kRefuses},
      {"serve", kRefuses},
      {"select", answers({"select"})},
      {"plan", answers({"plan", "gpt2"})},
      {"snapshot", answers({"snapshot"})},
      {"doctor", answers({"doctor"})},
      {"bench gpu", answers({"bench", "gpu"})},
      {"diagnose", answers({"diagnose", log}, false)},
      {"driver status", answers({"driver", "status"})},
      {"driver recommend", answers({"driver", "recommend"})},
      {"driver plan", answers({"driver", "plan", "--distribution", "ubuntu:22.04"})},
      {"driver apply", kChangesTheMachine},
      {"driver rollback", kChangesTheMachine},
      {"driver history", answers({"driver", "history"}, false)},
      {"bundle", answers({"bundle", "-o", (dir_ / "b.tar.gz").string()})},
      {"env list", answers({"env", "list"})},
      {"env use", answers({"env", "use", "--none"}, false)},
      {"env exec", kStartsSomething},
      {"env module", kChangesTheMachine},
      {"env persist", kChangesTheMachine},
      {"env check", answers({"env", "check"})},
      {"env create", kChangesTheMachine},
      {"env explain", answers({"env", "explain", "NCCL_DEBUG"}, false)},
      {"env generate", answers({"env", "generate", "nccl"})},
      {"run", kRefuses},
      {"record", answers({"record", "-o", recording, "--interval", "100ms", "--duration", "300ms", "-q"})},
      {"report", answers({"report", recording})},
      {"lease", answers({"lease", "--list"})},
      {"disable", answers({"disable", "0", "--reason", "fan"})},
      {"enable", answers({"enable", "0"})},
      {"compat", answers({"compat"})},
      {"memory status", answers({"memory", "status"})},
      {"memory replay", answers({"memory", "replay", trace})},
      {"memory trace", answers({"memory", "trace", "-o", (dir_ / "t.csv").string(), "--", "true"})},
      {"slurm nodes", answers({"slurm", "nodes"}, false)},
      {"slurm queue", answers({"slurm", "queue"}, false)},
      {"slurm why", answers({"slurm", "why", "12"}, false)},
      {"slurm follow", kRefuses},
      {"slurm doctor", answers({"slurm", "doctor"}, false)},
      {"slurm shell", answers({"slurm", "shell"}, false)},
      {"slurm script", answers({"slurm", "script", "--", "true"}, false)},
      {"sim list", answers({"sim", "list"})},
      {"sim show", answers({"sim", "show", "t4x1"})},
      {"sim exec", kRefuses},
      {"sim start", answers({"sim", "start", "lab", "--fleet", "t4x1"})},
      {"sim stop", kRefuses},
      {"sim fault", kRefuses},
      {"sim clear", kRefuses},
      {"sim reset", kRefuses},
      {"sim set", kRefuses},
      {"sim clock", kRefuses},
      {"help", kIsWords},
      {"version", kIsWords},
  };
}

void Answers::expect_answer(const std::string& command, const Expected& expected) const {
  static const std::string kPage = read_file(source_folder() / "docs/json.md").value_or("");
  const auto done = with_json(expected.words);
  const auto answer = nlohmann::json::parse(done.standard_output, nullptr, false);
  ASSERT_TRUE(answer.is_object()) << command << ": " << done.standard_output << done.standard_error;
  EXPECT_EQ(answer.value("schema", 0), 1) << command;
  EXPECT_EQ(answer.value("simulated", nlohmann::json()), expected.simulated) << command;
  for (const auto& [key, value] : answer.items()) {
    const bool named = kPage.contains(fmt::format("\"{}\"", key)) || kPage.contains(fmt::format("`{}`", key)) ||
                       kPage.contains(fmt::format("`{}:", key));
    EXPECT_TRUE(named) << "docs/json.md does not name the key '" << key << "' of gpuwarden " << command;
  }
}

TEST_F(Answers, EachHasItsFrameAndIsInTheDocumentation) {
  const auto expected = table();
  const auto all = commands();
  EXPECT_EQ(all.size(), expected.size());
  // `report` reads what `record` wrote, `enable` undoes `disable`: in the order of the command table.
  for (const std::string& command : all) {
    const auto row = expected.find(command);
    if (row == expected.end()) {
      ADD_FAILURE() << "what does gpuwarden " << command << " do with --json? Say so in this test's table";
      continue;
    }
    if (row->second.kind == Expected::Kind::answers) expect_answer(command, row->second);
    if (row->second.kind != Expected::Kind::refuses) continue;
    Words words;
    for (const auto word : split_words(command)) words.emplace_back(word);
    const auto done = with_json(words);
    EXPECT_EQ(done.exit_code, 2) << command << ": " << done.standard_error;
    EXPECT_EQ(done.standard_output, "") << command;
  }
  run({"sim", "stop", "lab"});
}

TEST_F(Answers, OtherFormsOfACommandHaveTheSameFrame) {
  const std::string here = (dir_ / "here.json").string();
  ASSERT_EQ(run({"snapshot", "-o", here}).exit_code, 0);
  expect_answer("doctor --compare", answers({"doctor", "--compare", here, here}));
  expect_answer("diagnose --list", answers({"diagnose", "--list"}, false));
  expect_answer("diagnose --explain", answers({"diagnose", "--explain", "Xid 79"}, false));
  expect_answer("plan --list", answers({"plan", "--list"}, false));
  const std::string archive = (dir_ / "b.tar.gz").string();
  ASSERT_EQ(run({"bundle", "-o", archive}).exit_code, 0);
  expect_answer("bundle --list", answers({"bundle", "--list", archive}));
}

}  // namespace
}  // namespace gpuwarden::testing
