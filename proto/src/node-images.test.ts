import { expect, test } from "vitest";
import { builderImageOf, defaultBaseImage } from "./node-images.ts";

test.each([
  { when: "nothing is chosen", base: defaultBaseImage, chosen: undefined, builder: "node:24" },
  { when: "only the base is chosen", base: "images.test/node:22", chosen: undefined, builder: "images.test/node:22" },
  { when: "both are chosen", base: "images.test/node:22", chosen: "images.test/sdk:22", builder: "images.test/sdk:22" },
])("when $when, apps are built in $builder", ({ base, chosen, builder }) => {
  expect(builderImageOf(base, chosen)).toBe(builder);
});
