// SPDX-License-Identifier: Apache-2.0
// Words by which neither a line nor a place in a text is told from others.
#pragma once

#include <string_view>

namespace gpuwarden::diagnosis {

/// Words that the logs of healthy programs and their documents are full of, trainers and servers of models among them.
inline constexpr std::string_view kCommonWords =
    "a accuracy across after all alloc allocate allocated allocation an and any application architecture are "
    "argument arguments as assert assertion at attention available average avg batch be been before behavior block "
    "bootstrap buffer build built bundle but by cache call called can cannot channel checkpoint code compatible "
    "compiled complete config connect connected connection consumed container could create created creates cuda "
    "cudnn current data dataset default deprecated detected device devices disable disabled do does driver each "
    "elapsed empty enable enabled end environment epoch error errors eval evaluation exist exists exit expect "
    "expected expects explicitly extension fail failed failure false feature features field file for format found "
    "free from full further generation get global got gpu gpus grad gradient group handle handles has have header "
    "high host id if ignored image images import in include index info information init initialized initializing "
    "input install installation installed instance instead interface internal into invalid is it iteration "
    "iterations its job kernel key known kv last launch learning length level library limit line list load loaded "
    "loader loading local log logging long loss low main make managed manager mask master match matches max maximum "
    "mem memory message metrics micro min minimum mismatch missing mode model module more multiple must name nan "
    "native nccl necessary need needed needs network new next no node norm not notes null num number nvidia object "
    "of on only open operation optimal option options or order other out output overloaded package packages pad page "
    "parallel parameter parse part pass passed path peer pending per performance permission please point pool port "
    "position power prefix present previous print private process profile program progress prompt property provided "
    "public python pytorch query queue ran random range rank ranks rate reached read reading ready received register "
    "release remote report reqs request requested requests require required requires reserved reset resource "
    "resources response result return root run running runs runtime same sample samples save saved saving scale "
    "schedule script search second seconds section see selected send sent server service session set shape shared "
    "short should signal size skip skipped socket source space specification specified speed split stack standard "
    "start started startup state status step steps stop store stream string success successfully such support "
    "supported supports swapped switch sync system table tag target task tensor test text than that the their then "
    "there these this thread threads throughput time timeout timer to token tokens tool tools topology torch total "
    "train trainer training transfer tree tried true trying tune type unable unit unknown unsupported update updated "
    "usage use used user using util valid validation value valueerror variable vector verify version view wait "
    "waiting warning was weights were when which will window with without words work worker works write writing "
    "wrong yet you your zero";

}  // namespace gpuwarden::diagnosis
