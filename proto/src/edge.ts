/** Messages and services between control and the router of an edge. */
export * from "./gen/svc/edge/v1/edge_pb.ts";
