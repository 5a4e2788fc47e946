import { lifecycle } from "../lifecycle.ts";

export const start = lifecycle({
  name: "start",
  summary: "Start the production deployment that was stopped",
  doing: "Starting",
  examples: ["svc start", "svc start --project shop --no-wait"],
  goal: "running",
});
