import { expect, test } from "vitest";
import { manifestSchema } from "./manifest.ts";
import { areEventsSplit } from "./realtime.ts";

const server = (app: object, more: object = {}) =>
  manifestSchema.parse({ version: 2, app: { name: "Chat", type: "ssr", ...app }, ...more });
const image = manifestSchema.parse({
  version: 2,
  name: "Chat",
  type: "ociimage",
  port: 80,
  image: { reference: "chat:1" },
});
const packages = ["express", "@svc/realtime"];

test.each([
  { when: "of two replicas without a database", manifest: server({ replicas: 2 }), packages, split: true },
  { when: "of one replica", manifest: server({ replicas: 1 }), packages, split: false },
  { when: "of one replica, as nobody said", manifest: server({}), packages, split: false },
  { when: "that does not use the package", manifest: server({ replicas: 2 }), packages: ["express"], split: false },
  {
    when: "whose channel has a database",
    manifest: server({ replicas: 2 }),
    packages,
    hasDatabase: true,
    split: false,
  },
  {
    when: "that gets a database",
    manifest: server({ replicas: 2 }, { database: { enabled: true } }),
    ...{ packages, split: false },
  },
  {
    when: "that wants no database any more",
    manifest: server({ replicas: 3 }, { database: { enabled: false } }),
    ...{ packages, split: true },
  },
  { when: "that is an image, which has one replica", manifest: image, packages, split: false },
])("events of an app $when: $split", ({ manifest, packages, hasDatabase = false, split }) => {
  expect(areEventsSplit(manifest, { packages, hasDatabase })).toBe(split);
});
