/** What operators' tools ask every program: metrics, health and readiness. */
export { type OperatorsListener, type OperatorsView, startOperatorsListener } from "./listener.ts";
export { createPulse, type Pulse } from "./pulse.ts";
