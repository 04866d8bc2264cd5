/* Two ways to use the collectives from C: several processes of one program that starts itself, as here, or whatever
 * launcher there is, which only has to pass the unique id around.
 *
 *     coll_allreduce [RANKS]
 *
 * Each rank gives its number; all get the sum, then each sends its right neighbour a greeting. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "softib_coll.h"

static void check(softibResult_t result, const char* what) {
  if (result == softibSuccess) return;
  fprintf(stderr, "%s: %s: %s\n", what, softibGetErrorString(result), softibGetLastError(NULL));
  exit(1);
}

static int run_rank(softibUniqueId_t id, int ranks, int rank) {
  softibComm_t comm;
  check(softibCommInitRank(&comm, ranks, id, rank), "softibCommInitRank");

  float* gradients;
  const size_t count = 1000;
  check(softibMemAlloc(comm, (void**)&gradients, count * sizeof *gradients), "softibMemAlloc");
  for (size_t i = 0; i < count; ++i) gradients[i] = (float)rank;
  check(softibAllReduce(gradients, gradients, count, softibFloat32, softibSum, comm), "softibAllReduce");
  const float expected = (float)(ranks * (ranks - 1) / 2);
  for (size_t i = 0; i < count; ++i)
    if (gradients[i] != expected) return 1;

  /* A send and a receive that wait for each other belong in a group. */
  int mine = 100 + rank;
  int theirs = 0;
  softibRequest_t request;
  check(softibGroupStart(), "softibGroupStart");
  check(softibSend(&mine, 1, softibInt32, (rank + 1) % ranks, comm), "softibSend");
  check(softibRecv(&theirs, 1, softibInt32, (rank + ranks - 1) % ranks, comm), "softibRecv");
  check(softibGroupEndRequest(&request), "softibGroupEndRequest");
  /* ... something useful ... */
  check(softibRequestWait(request), "softibRequestWait");
  printf("rank %d of %d: sum %g, my left neighbour says %d\n", rank, ranks, (double)gradients[0], theirs);

  check(softibMemFree(comm, gradients), "softibMemFree");
  check(softibCommDestroy(comm), "softibCommDestroy");
  return theirs == 100 + (rank + ranks - 1) % ranks ? 0 : 1;
}

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? atoi(argv[1]) : 2;
  if (ranks < 1) {
    fprintf(stderr, "usage: coll_allreduce [RANKS]\n");
    return 2;
  }
  softibUniqueId_t id;
  check(softibGetUniqueId(&id), "softibGetUniqueId");
  for (int rank = 1; rank < ranks; ++rank)
    if (fork() == 0) return run_rank(id, ranks, rank);
  int failed = run_rank(id, ranks, 0);
  int status = 0;
  while (wait(&status) > 0) failed |= status != 0;
  return failed;
}
