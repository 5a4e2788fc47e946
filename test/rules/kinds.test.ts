import { kindNamed } from "@svc/agent/placements/kinds/index";
import { rulesOf } from "@svc/control/fleet/tasks/kinds/index";
import { taskKinds } from "@svc/proto/kinds";
import { expect, test } from "vitest";

// Control counts what a message stops, and so does the agent that judges it.
test.each(taskKinds)("control and agents say the same of whether visitors use a %s", (kind) => {
  expect(kindNamed(kind)?.isVisited).toBe(rulesOf(kind).isVisited);
});
