import { expect, test } from "vitest";
import { hasReached } from "./position.ts";

test.each([
  { engine: "postgres", position: "0/3000148", wanted: "0/3000148", is: true },
  { engine: "postgres", position: "1/0", wanted: "0/FFFFFFFF", is: true },
  { engine: "postgres", position: "0/9", wanted: "0/10", is: false },
  { engine: "postgres", position: "", wanted: "0/10", is: false },
  { engine: "mariadb", position: "binlog.000007:4711", wanted: "binlog.000007:4711", is: true },
  { engine: "mariadb", position: "binlog.000010:4", wanted: "binlog.000009:9999", is: true },
  { engine: "mariadb", position: "binlog.000007:4710", wanted: "binlog.000007:4711", is: false },
  { engine: "mariadb", position: "other.000008:4", wanted: "binlog.000007:4711", is: false },
  { engine: "mariadb", position: "0-1-270", wanted: "0-1-269", is: true },
  { engine: "mariadb", position: "0-1-270,1-1-3", wanted: "0-1-270,1-1-4", is: false },
  { engine: "mariadb", position: "0-1-270", wanted: "0-1-270,1-1-4", is: false },
  { engine: "mariadb", position: "", wanted: "", is: true },
  { engine: "mariadb", position: "binlog.000007:4711", wanted: "0-1-270", is: false },
] as const)("a copy of $engine that is at '$position' has what is before '$wanted': $is", ({ engine, is, ...at }) => {
  expect(hasReached(engine, at.position, at.wanted)).toBe(is);
});
