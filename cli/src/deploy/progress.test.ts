import { expect, test } from "vitest";
import { uploadedLine, uploadLine } from "./progress.ts";

const mebibyte = 1024 * 1024;

test.each([
  [0, 0, "Uploading 0 B of 10.0 MiB, 0%"],
  [5 * mebibyte, 2000, "Uploading 5.0 MiB of 10.0 MiB, 50%, 2.5 MiB/s"],
  [10 * mebibyte - 1, 4000, "Uploading 10.0 MiB of 10.0 MiB, 99%, 2.5 MiB/s"],
  [10 * mebibyte, 4000, "Uploaded 10.0 MiB; waiting for the platform to take it in"],
])("%i bytes in %i ms", (sent, elapsedMs, line) => {
  expect(uploadLine(sent, 10 * mebibyte, elapsedMs)).toBe(line);
});

test("an upload that is over says how long it took", () => {
  expect(uploadedLine(3 * mebibyte, 61_000)).toBe("Uploaded 3.0 MiB in 1 min 1 s");
});
