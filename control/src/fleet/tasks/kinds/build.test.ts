import { type Manifest, manifestSchema } from "@svc/proto";
import { expect, test } from "vitest";
import type { Deployment, Plan, Project } from "../../../stores/db/tables.ts";
import { buildTask } from "./build.ts";

const deployment = { source_digest: "sha256:1", source_repository: "svc/p/source" } as Deployment;
const project = { id: "p" } as Project;
const plan = { storage_mb: 100, max_upload_mb: 10, node_selector: {} } as Plan;

const aSite = (build: object): Manifest =>
  manifestSchema.parse({ version: 2, app: { name: "Docs", type: "static" }, build });

test.each([
  { when: "nobody did", build: { command: "make" }, output: "dist", outputSaid: false },
  { when: "it is what is usual", build: { command: "make", output: "dist" }, output: "dist", outputSaid: true },
  { when: "it is something else", build: { command: "make", output: "www" }, output: "www", outputSaid: true },
])("a node is told whether somebody said where a command leaves the site: $when", ({ build, output, outputSaid }) => {
  const { spec } = buildTask(deployment, project, plan, aSite(build));
  expect(spec).toMatchObject({ recipe: { static: { command: "make", output, outputSaid } } });
});
