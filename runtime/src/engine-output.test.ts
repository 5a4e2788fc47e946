import { expect, test } from "vitest";
import { engineOutput } from "./engine-output.mjs";

test("engines pass on what a step writes at once, but for those that lose themselves over it", () => {
  const speed = (version: string) => Number(engineOutput(version).BUILDKIT_STEP_LOG_MAX_SPEED);
  const size = (version: string) => Number(engineOutput(version).BUILDKIT_STEP_LOG_MAX_SIZE);
  expect(speed("Docker version 26.1.5+dfsg1, build a72d7cd")).toBe(size("26.1.5"));
  expect(speed("23.0.0")).toBe(size("23.0.0"));
  for (const old of ["Docker version 20.10.24+dfsg1, build 5d6db84", "22.06.0-beta", ""]) {
    expect(speed(old)).toBeLessThan((1024 * 1024) / 2);
    expect(size(old)).toBe(size("26.1.5"));
  }
});
