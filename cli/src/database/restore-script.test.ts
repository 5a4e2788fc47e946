import { expect, test } from "vitest";
import { emptyMariadb, engineOfDump, isCutOff, isGzip, knowsRestrict } from "./restore-script.ts";

test.each([
  ["--\n-- PostgreSQL database dump\n--\n", "postgres"],
  ["/*M!999999\\- enable the sandbox mode */ \n-- MariaDB dump 10.19-11.8.6-MariaDB\n", "mariadb"],
  ["/*!999999\\- enable the sandbox mode */ \n", "mariadb"],
  ["-- MySQL dump 10.13  Distrib 8.0.40\n", "mariadb"],
  ["create table t (a text default '-- MySQL dump');", null],
  ["", null],
])("%j was written for %s", (beginning, engine) => {
  expect(engineOfDump(beginning)).toBe(engine);
});

test.each([
  ["postgres", "--\n-- PostgreSQL database dump\n--\n", "--\n-- PostgreSQL database dump complete\n--\n", false],
  ["postgres", "--\n-- PostgreSQL database dump\n--\n", "select 'PostgreSQL database dump complete';\n", true],
  ["mariadb", "-- MariaDB dump 10.19\n", "-- Dump completed on 2030-01-01\r\n", false],
  ["mariadb", "-- MySQL dump 10.13\n", "INSERT INTO `a` VALUES (1),\n", true],
  ["mariadb", "/*M!999999\\- enable the sandbox mode */ \n", "INSERT INTO `a` VALUES (1);\n", false],
] as const)("a dump of %s that begins with %j and ends with %j is cut off: %s", (engine, beginning, end, cut) => {
  expect(isCutOff(engine, { beginning, end })).toBe(cut);
});

test.each([
  ["psql (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", true],
  ["psql (PostgreSQL) 15.13", false],
  ["psql (PostgreSQL) 17.6", true],
  ["psql (PostgreSQL) 18beta1", true],
  ["psql (PostgreSQL) 18.1", true],
  ["psql (PostgreSQL) 12.22", false],
  ["", false],
])("%j knows \\restrict: %s", (version, knows) => {
  expect(knowsRestrict(version)).toBe(knows);
});

test("gzip is known by its first two bytes", () => {
  expect(isGzip(Uint8Array.of(0x1f, 0x8b, 8))).toBe(true);
  expect(isGzip(Uint8Array.of(0x1f))).toBe(false);
});

test("keys that refer to one another keep no table from being dropped", () => {
  expect(emptyMariadb("DROP TABLE IF EXISTS `a`;")).toBe(
    "SET FOREIGN_KEY_CHECKS=0;\nDROP TABLE IF EXISTS `a`;\nSET FOREIGN_KEY_CHECKS=1;\n",
  );
});
