/** How a daemon reaches control: identity on disk, enrolment, mTLS transport, reconnecting session. */
export {
  createEndpoints,
  type Endpoints,
  endpointListProblem,
  linkBackOff,
  onlyEndpoint,
  splitEndpoints,
} from "./endpoints.ts";
export { type DaemonRole, forgetIdentity, type Identity, loadIdentity } from "./identity.ts";
export { JoinRefusedError, joinCluster } from "./join.ts";
export type { LinkLog } from "./log.ts";
export { isOver, nextIdentity, takeNextIdentity } from "./rejoin.ts";
export { renewLoop } from "./renew.ts";
export { FencedError, runSession, type Send } from "./session.ts";
export { type BootstrapToken, parseToken } from "./token.ts";
export { createTransport, type LinkTransport } from "./transport.ts";
