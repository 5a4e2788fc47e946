import { describe, expect, test } from "vitest";
import { parseDescription, patchesIn } from "./description.ts";

describe("parseDescription", () => {
  test("finds the version and the Go code, whether or not lines are folded", () => {
    const one =
      "Source: caddy\nVersion: 2.6.2-5\nBuild-Depends: dh-golang, golang-any, golang-glog-dev, golang-x-dev (>= 1~)\nFiles:\n";
    expect(parseDescription(one)).toEqual({ version: "2.6.2", goPackages: ["golang-glog-dev", "golang-x-dev"] });
    const folded =
      "Version: 1:2.7.0+ds-1~deb12u1\nBuild-Depends: golang-a-dev,\n golang-b.v2-dev,\n\tmake\nBinary: golang-c-dev\n";
    expect(parseDescription(folded)).toEqual({ version: "2.7.0+ds", goPackages: ["golang-a-dev", "golang-b.v2-dev"] });
  });

  test.each(["", "Version: 2.6.2-5\n", "Build-Depends: golang-a-dev\n"])("refuses %j", (text) => {
    expect(() => parseDescription(text)).toThrow("no source package");
  });
});

test("patches are taken in their order, without what is said of them", () => {
  expect(patchesIn("# all\n\n0002-b.patch\n0001-a.patch # why\n")).toEqual(["0002-b.patch", "0001-a.patch"]);
});
