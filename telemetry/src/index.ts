/** What operators' tools ask every program: metrics, health and readiness. */
export { type OperatorsListener, type OperatorsSource, startOperatorsListener } from "./listener.ts";
export { createMeter, type Meter } from "./meter.ts";
export { isPrivateListen, privateListenHint } from "./private-listen.ts";
export { createPulse, type Pulse } from "./pulse.ts";
