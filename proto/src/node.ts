/** Messages and services between control and the agent of a node. */
export * from "./gen/svc/node/v1/node_pb.ts";
