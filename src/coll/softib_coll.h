/* Collectives between processes for C, shaped like NCCL's nccl.h: the same names with softib in place of nccl, the same
 * values of enumerations. What differs:
 *
 *   - Memory is the processor's. There are no streams: outside of a group, a call returns when its part is done.
 *   - A group can end without waiting (softibGroupEndRequest). Its request is tested or waited for; nothing moves while
 *     no thread is inside a call on the communicator.
 *   - One process is one rank of a communicator, and one thread at a time uses it; softibCommAbort and
 *     softibCommGetAsyncError may come from any. softibCommInitRank and softibCommSplit are not part of groups.
 *   - softibGetLastError gives the calling thread's last error, whatever communicator is passed.
 *
 * Counts are in elements. Functions return softibSuccess or say in softibGetLastError what was wrong. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SOFTIB_COLL_API __attribute__((visibility("default")))

#define SOFTIB_COLL_MAJOR 0
#define SOFTIB_COLL_MINOR 1
#define SOFTIB_COLL_PATCH 0

typedef struct softibComm* softibComm_t;
typedef struct softibRequest* softibRequest_t;

#define SOFTIB_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[SOFTIB_UNIQUE_ID_BYTES];
} softibUniqueId_t;

typedef enum {
  softibSuccess = 0,
  softibUnhandledDeviceError = 1, /* never given */
  softibSystemError = 2,
  softibInternalError = 3,
  softibInvalidArgument = 4,
  softibInvalidUsage = 5,
  softibRemoteError = 6, /* another rank died, hangs or has left */
  softibInProgress = 7,
  softibNumResults = 8
} softibResult_t;

typedef enum {
  softibInt8 = 0,
  softibChar = 0,
  softibUint8 = 1,
  softibInt32 = 2,
  softibInt = 2,
  softibUint32 = 3,
  softibInt64 = 4,
  softibUint64 = 5,
  softibFloat16 = 6,
  softibHalf = 6,
  softibFloat32 = 7,
  softibFloat = 7,
  softibFloat64 = 8,
  softibDouble = 8,
  softibBfloat16 = 9,
  softibFloat8e4m3 = 10,
  softibFloat8e5m2 = 11,
  softibNumTypes = 12
} softibDataType_t;

/* What softibRedOpCreatePreMulSum makes has values above these. */
typedef enum {
  softibSum = 0,
  softibProd = 1,
  softibMax = 2,
  softibMin = 3,
  softibAvg = 4,
  softibNumOps = 5,
  softibMaxRedOp = 0x7fffffff
} softibRedOp_t;

/* Where the scalar is read: at once here, there being no device. */
typedef enum { softibScalarDevice = 0, softibScalarHostImmediate = 1 } softibScalarResidence_t;

typedef struct {
  size_t size;      /* sizeof(softibConfig_t) */
  double timeout;   /* seconds without anything moving; 0: as without a configuration */
  const char* name; /* in messages; may be NULL */
} softibConfig_t;
#define SOFTIB_CONFIG_INITIALIZER \
  { sizeof(softibConfig_t), 0, NULL }

SOFTIB_COLL_API softibResult_t softibGetVersion(int* version); /* 10000 * major + 100 * minor + patch */
SOFTIB_COLL_API const char* softibGetErrorString(softibResult_t result);
SOFTIB_COLL_API const char* softibGetLastError(softibComm_t comm);

/* Communicators. Each call here but those of any thread is collective. */
SOFTIB_COLL_API softibResult_t softibGetUniqueId(softibUniqueId_t* id); /* on one process, not collective */
SOFTIB_COLL_API softibResult_t softibCommInitRank(softibComm_t* comm, int nranks, softibUniqueId_t id, int rank);
SOFTIB_COLL_API softibResult_t softibCommInitRankConfig(softibComm_t* comm, int nranks, softibUniqueId_t id, int rank,
                                                        const softibConfig_t* config);
#define SOFTIB_SPLIT_NOCOLOR (-1) /* gets NULL */
SOFTIB_COLL_API softibResult_t softibCommSplit(softibComm_t comm, int color, int key, softibComm_t* newcomm);
/* After a failure too: a communicator of all who are alive and not in the list. */
SOFTIB_COLL_API softibResult_t softibCommShrink(softibComm_t comm, const int* excluded, int count,
                                                softibComm_t* newcomm);
SOFTIB_COLL_API softibResult_t softibCommFinalize(softibComm_t comm); /* waits for all that is under way */
SOFTIB_COLL_API softibResult_t softibCommDestroy(softibComm_t comm);
/* Ends it on all ranks and frees it; calls of other threads on it return first. */
SOFTIB_COLL_API softibResult_t softibCommAbort(softibComm_t comm);
SOFTIB_COLL_API softibResult_t softibCommGetAsyncError(softibComm_t comm, softibResult_t* error);
SOFTIB_COLL_API softibResult_t softibCommCount(softibComm_t comm, int* count);
SOFTIB_COLL_API softibResult_t softibCommUserRank(softibComm_t comm, int* rank);

/* Memory that peers of the host use in place, and that HCAs know: the fastest there is. Lives until it is freed or the
 * communicator is. */
SOFTIB_COLL_API softibResult_t softibMemAlloc(softibComm_t comm, void** memory, size_t size);
SOFTIB_COLL_API softibResult_t softibMemFree(softibComm_t comm, void* memory);
SOFTIB_COLL_API softibResult_t softibCommRegister(softibComm_t comm, void* memory, size_t size, void** handle);
SOFTIB_COLL_API softibResult_t softibCommDeregister(softibComm_t comm, void* handle);

/* Sum of what each rank gives times its own scalar. */
SOFTIB_COLL_API softibResult_t softibRedOpCreatePreMulSum(softibRedOp_t* op, const void* scalar,
                                                          softibDataType_t datatype, softibScalarResidence_t residence,
                                                          softibComm_t comm);
SOFTIB_COLL_API softibResult_t softibRedOpDestroy(softibRedOp_t op, softibComm_t comm);

/* Collectives. In place: recvbuff == sendbuff where both have one size; else the smaller one is this rank's block of
 * the larger one. */
SOFTIB_COLL_API softibResult_t softibAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                               softibDataType_t datatype, softibRedOp_t op, softibComm_t comm);
SOFTIB_COLL_API softibResult_t softibReduce(const void* sendbuff, void* recvbuff, size_t count,
                                            softibDataType_t datatype, softibRedOp_t op, int root, softibComm_t comm);
SOFTIB_COLL_API softibResult_t softibBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                                               softibDataType_t datatype, int root, softibComm_t comm);
SOFTIB_COLL_API softibResult_t softibBcast(void* buff, size_t count, softibDataType_t datatype, int root,
                                           softibComm_t comm);
SOFTIB_COLL_API softibResult_t softibAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                               softibDataType_t datatype, softibComm_t comm);
SOFTIB_COLL_API softibResult_t softibReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                                   softibDataType_t datatype, softibRedOp_t op, softibComm_t comm);
SOFTIB_COLL_API softibResult_t softibGather(const void* sendbuff, void* recvbuff, size_t count,
                                            softibDataType_t datatype, int root, softibComm_t comm);
SOFTIB_COLL_API softibResult_t softibScatter(const void* sendbuff, void* recvbuff, size_t count,
                                             softibDataType_t datatype, int root, softibComm_t comm);
SOFTIB_COLL_API softibResult_t softibAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                                              softibDataType_t datatype, softibComm_t comm);
/* By rank: counts[r] elements of or for rank r; offsets in elements. */
SOFTIB_COLL_API softibResult_t softibAlltoAllv(const void* sendbuff, const size_t* sendcounts,
                                               const size_t* sendoffsets, void* recvbuff, const size_t* recvcounts,
                                               const size_t* recvoffsets, softibDataType_t datatype, softibComm_t comm);
SOFTIB_COLL_API softibResult_t softibAllGatherv(const void* sendbuff, void* recvbuff, const size_t* counts,
                                                softibDataType_t datatype, softibComm_t comm);
SOFTIB_COLL_API softibResult_t softibReduceScatterv(const void* sendbuff, void* recvbuff, const size_t* counts,
                                                    softibDataType_t datatype, softibRedOp_t op, softibComm_t comm);
SOFTIB_COLL_API softibResult_t softibBarrier(softibComm_t comm);

/* Point to point. Messages between two ranks go in the order of the calls. Exchanges belong in a group, as each call
 * outside of one waits. */
SOFTIB_COLL_API softibResult_t softibSend(const void* sendbuff, size_t count, softibDataType_t datatype, int peer,
                                          softibComm_t comm);
SOFTIB_COLL_API softibResult_t softibRecv(void* recvbuff, size_t count, softibDataType_t datatype, int peer,
                                          softibComm_t comm);

/* Calls between these start together, at the end of the outermost group; any communicators. softibGroupEnd waits for
 * all of them. */
SOFTIB_COLL_API softibResult_t softibGroupStart(void);
SOFTIB_COLL_API softibResult_t softibGroupEnd(void);
/* Doesn't wait: of the outermost group. Memory belongs to the calls until the request is done. */
SOFTIB_COLL_API softibResult_t softibGroupEndRequest(softibRequest_t* request);
/* Once it is done, or failed, the request is freed. */
SOFTIB_COLL_API softibResult_t softibRequestTest(softibRequest_t request, int* done);
SOFTIB_COLL_API softibResult_t softibRequestWait(softibRequest_t request);

#ifdef __cplusplus
}
#endif
