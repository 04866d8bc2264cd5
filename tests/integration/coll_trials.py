#!/usr/bin/env python3
"""Communicators of ranks on several hosts: random calls against the reference, and ranks that are killed at any time.

    coll_trials.py [--softib PATH] [--filter REGEX] [--full] [--seconds N] [--kills N] [--seed N]

Prints PASS, FAIL or SKIP for each case, and a total line. Without --full the seeds are fixed and few; with it, each
random case takes --seconds (600), and each setting has --kills (200); seeds are random then, unless --seed is given,
and printed. A failure tells how to repeat it.
"""

import pathlib
import random
import sys

from suite import Suite, check, new_parser, wait_for

HOSTS = "fabric: default\nhosts: 3\nhcas: 2\n"
ETHERNET = HOSTS + "link_layer: ethernet\n"
EACH = 3  # ranks on a host
# Ranks tell of each end; what counts is what the trials say of them.
QUIET = {"SOFTIB_DEBUG": "NONE"}
ARGUMENTS = None
number = 0


def objects(fabric):
    """What there is in the fabric of each kind, and how many processes use it."""
    status = fabric.status()
    return status["objects"], len(status["processes"])


def seed_for(fixed):
    if ARGUMENTS.seed is not None:
        return ARGUMENTS.seed
    return random.getrandbits(40) if ARGUMENTS.full else fixed


def trials(fabric, mode, *words, each=EACH, hosts=3, seconds=300, **environment):
    """Runs coll_trials on all hosts; its ranks' outputs, by host."""
    global number
    number += 1
    program = str(pathlib.Path(fabric.softib).parent / "coll_trials")
    common = [program, mode, "--ranks", str(each * hosts), "--id", f"{fabric.folder}/id{number}", *words]
    before = objects(fabric)
    running = [fabric.start(f"host{host}", [*common, "--here", f"{host * each}-{host * each + each - 1}"],
                            **dict(QUIET, **environment)) for host in range(hosts)]
    try:
        ends = [each_one.wait(seconds) for each_one in running]
        outputs = [each_one.output() for each_one in running]
    finally:
        for each_one in running:
            each_one.stop()
    check(ends == [0] * hosts, f"status {ends}\n" + "\n".join(output[-3000:] for output in outputs))
    wait_for(lambda: objects(fabric) == before, f"objects before: {before}, after: {objects(fabric)}")
    return outputs


def random_calls(fabric, fixed, *words, sessions=4, **environment):
    amount = ["--seconds", str(ARGUMENTS.seconds)] if ARGUMENTS.full else ["--sessions", str(sessions)]
    outputs = trials(fabric, "random", "--seed", str(seed_for(fixed)), *amount, *words,
                     seconds=ARGUMENTS.seconds + 300, **environment)
    tell(outputs)


def kills(fabric, fixed, times=4, **environment):
    times = ARGUMENTS.kills if ARGUMENTS.full else times
    outputs = trials(fabric, "kills", "--seed", str(seed_for(fixed)), "--times", str(times), each=2,
                     seconds=60 + 10 * times, **environment)
    tell(outputs)


def tell(outputs):
    for line in outputs[0].splitlines():
        if ARGUMENTS.full:
            print(f"      {line}", flush=True)


# -- cases -------------------------------------------------------------------------------------------------------------


def random_calls_over_what_there_is(fabric):
    """Shared memory within a host and verbs between hosts; now and then without the one or the other."""
    random_calls(fabric, 11, "--free", "shm,verbs,hosts")


def random_calls_over_verbs_alone(fabric):
    random_calls(fabric, 22, SOFTIB_SHM_DISABLE="1")


def random_calls_over_tcp(fabric):
    random_calls(fabric, 33, "--free", "shm,hosts", SOFTIB_IB_DISABLE="1")


def killed_ranks_over_what_there_is(fabric):
    kills(fabric, 100)


def killed_ranks_over_verbs_alone(fabric):
    kills(fabric, 200, SOFTIB_SHM_DISABLE="1")


def killed_ranks_over_tcp(fabric):
    kills(fabric, 300, SOFTIB_IB_DISABLE="1")


def main():
    global ARGUMENTS
    parser = new_parser(__doc__)
    parser.add_argument("--full", action="store_true", help="many random ones instead of few fixed ones")
    parser.add_argument("--seconds", type=int, default=600, help="of each random case, with --full")
    parser.add_argument("--kills", type=int, default=200, help="in each setting, with --full")
    parser.add_argument("--seed", type=int)
    suite = Suite(parser)
    ARGUMENTS = suite.arguments
    suite.on(HOSTS, [random_calls_over_what_there_is, random_calls_over_verbs_alone, random_calls_over_tcp,
                     killed_ranks_over_what_there_is, killed_ranks_over_verbs_alone, killed_ranks_over_tcp])
    suite.on(ETHERNET, [random_calls_over_what_there_is, random_calls_over_verbs_alone, killed_ranks_over_verbs_alone])
    return suite.conclude()


if __name__ == "__main__":
    sys.exit(main())
