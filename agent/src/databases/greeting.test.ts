import { expect, test } from "vitest";
import { judgeAnswer, openingOf } from "./greeting.ts";

function errorOf(code: string): Buffer {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0Msomething\0\0`);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(fields.length + 4);
  return Buffer.concat([Buffer.from("E"), length, fields]);
}
const asksForPassword = Buffer.from([0x52, 0, 0, 0, 23, 0, 0, 0, 10]);
const greeting = Buffer.concat([Buffer.from([90, 0, 0, 0, 10]), Buffer.from("11.8.6-MariaDB\0")]);

test.each([
  { when: "Postgres asks for a password", engine: "postgres", heard: asksForPassword, serves: true },
  { when: "Postgres starts up", engine: "postgres", heard: errorOf("57P03"), serves: false },
  { when: "Postgres has too many sessions", engine: "postgres", heard: errorOf("53300"), serves: true },
  { when: "half of an error is there", engine: "postgres", heard: errorOf("53300").subarray(0, 12), serves: null },
  {
    when: "an error is said to be huge",
    engine: "postgres",
    heard: Buffer.from("E\xff\xff\xff\xff", "latin1"),
    serves: false,
  },
  { when: "nothing is there yet", engine: "postgres", heard: Buffer.alloc(0), serves: null },
  { when: "it is no Postgres", engine: "postgres", heard: Buffer.from("HTTP/1.1"), serves: false },
  { when: "MariaDB greets", engine: "mariadb", heard: greeting, serves: true },
  {
    when: "MariaDB has too many sessions",
    engine: "mariadb",
    heard: Buffer.from([9, 0, 0, 0, 0xff, 0x10, 4]),
    serves: true,
  },
  { when: "the greeting has not come yet", engine: "mariadb", heard: greeting.subarray(0, 4), serves: null },
  { when: "it is no MariaDB", engine: "mariadb", heard: Buffer.from("HTTP/1.1"), serves: false },
] as const)("a server that answers is judged when $when", ({ engine, heard, serves }) => {
  expect(judgeAnswer(engine, heard)).toBe(serves);
});

test("only Postgres waits to be spoken to", () => {
  expect(Buffer.from(openingOf("postgres")).readUInt32BE(0)).toBe(openingOf("postgres").length);
  expect(openingOf("mariadb")).toHaveLength(0);
});
