/** Messages and services of etcd v3, generated from its own protobuf files. */
export * from "./gen/etcd/kv_pb.ts";
export * from "./gen/etcd/rpc_pb.ts";
