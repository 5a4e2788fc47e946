import { expect, test } from "vitest";
import { createPulse } from "./pulse.ts";

test("a loop that has not turned for longer than it promised is named, until it turns", () => {
  let nowMs = 0;
  const pulse = createPulse(() => nowMs);
  const turned = pulse.expect("survey", 1_000);
  pulse.expect("traffic", 5_000);
  nowMs = 1_000;
  expect(pulse.stuck()).toBeNull();
  nowMs = 3_000;
  expect(pulse.stuck()).toBe("survey: no round for 3 s");
  turned();
  expect(pulse.stuck()).toBeNull();
  nowMs = 6_000;
  turned();
  expect(pulse.stuck()).toBe("traffic: no round for 6 s");
});
