import { expect, test } from "vitest";
import { layerDirectory, writableLayers } from "./overlays.ts";

const overlay = (point: string, upper: string) =>
  `77 51 0:39 / ${point} rw,relatime master:2 - overlay overlay rw,lowerdir=/o/l/A:/o/l/B,upperdir=${upper},workdir=/o/w`;
const bind = (point: string) => `97 77 254:0 /o/q/diff ${point} rw,relatime master:1 - ext4 /dev/vda rw,discard`;

test.each<{ when: string; lines: string[]; layers: [string, string][] }>([
  {
    when: "a root and what is bound into it",
    lines: [overlay("/", "/o/x/diff"), bind("/c")],
    layers: [["/", "/o/x/diff"]],
  },
  {
    when: "two layers",
    lines: [overlay("/", "/o/x/diff"), overlay("/b", "/o/y/diff")],
    layers: [
      ["/", "/o/x/diff"],
      ["/b", "/o/y/diff"],
    ],
  },
  { when: "a layer that something covers", lines: [overlay("/b", "/o/y/diff"), bind("/b")], layers: [] },
  { when: "white space", lines: [overlay("/a\\040b", "/o/y\\134/diff")], layers: [["/a b", "/o/y\\/diff"]] },
  {
    when: "a layer that nobody writes to",
    lines: ["77 51 0:39 / / ro,relatime - overlay overlay ro,lowerdir=/o/l/A:/o/l/B"],
    layers: [],
  },
  { when: "nothing", lines: [""], layers: [] },
])("$when", ({ lines, layers }) => {
  expect([...writableLayers(lines.join("\n"))]).toEqual(layers);
});

test.each([
  { layer: "/var/lib/docker/overlay2/x/diff", found: "/var/lib/docker/overlay2/x/diff" },
  { layer: "x/diff", found: "/data/docker/overlay2/x/diff" },
])("a layer that is mounted as $layer is at $found", ({ layer, found }) => {
  expect(layerDirectory(layer, "/data/docker")).toBe(found);
});
