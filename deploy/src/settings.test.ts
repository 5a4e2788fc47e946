import { expect, test } from "vitest";
import { portSettings } from "./ports.ts";
import { readSettings } from "./settings.ts";

test("without any setting everything has its usual place", () => {
  const settings = readSettings({}, "/srv/svc");
  expect(settings.dir).toBe("/srv/svc/.svc-local");
  expect(settings.agents).toBe(3);
  expect(settings.ports.api).toBe(portSettings.api.port);
  expect(settings.buildCaFile).toBeNull();
});

test("builds trust what this machine's Node trusts, unless told otherwise", () => {
  const machine = { NODE_EXTRA_CA_CERTS: "/etc/ssl/own.pem" };
  expect(readSettings(machine, "/srv").buildCaFile).toBe("/etc/ssl/own.pem");
  expect(readSettings({ ...machine, SVC_BUILD_CA_FILE: "/srv/ca.pem" }, "/srv").buildCaFile).toBe("/srv/ca.pem");
});

test.each([
  { when: "a port is not a number", env: { SVC_PORT_API: "http" }, names: "SVC_PORT_API" },
  { when: "a port is out of range", env: { SVC_PORT_HTTP: "70000" }, names: "SVC_PORT_HTTP" },
  { when: "two ports are the same", env: { SVC_PORT_HTTPS: "8080" }, names: "SVC_PORT_HTTPS" },
  { when: "there are no nodes", env: { SVC_AGENTS: "0" }, names: "SVC_AGENTS" },
  { when: "the base image has no tag", env: { SVC_BASE_IMAGE_NODE: "node" }, names: "SVC_BASE_IMAGE_NODE" },
])("when $when, the setting is named", ({ env, names }) => {
  expect(() => readSettings(env, "/srv")).toThrow(names);
});
