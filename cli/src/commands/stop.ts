import { lifecycle } from "../lifecycle.ts";

export const stop = lifecycle({
  name: "stop",
  summary: "Stop the production deployment; the site answers 503",
  doing: "Stopping",
  examples: ["svc stop", "svc stop --project shop --no-wait"],
  goal: "stopped",
});
