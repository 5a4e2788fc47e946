import { expect, test } from "vitest";
import { rewriteDockerfile } from "./user-dockerfile.ts";

const rewrite = (text: string): string => {
  const result = rewriteDockerfile(text, "p1");
  return "text" in result ? result.text : `refused: ${result.refuse}`;
};

test.each([
  {
    when: "a stage opens",
    text: "FROM node AS a\nRUN x\nfrom a\n",
    becomes: "FROM node AS a\nARG SVC_CACHE_NAMESPACE\nRUN x\nfrom a\nARG SVC_CACHE_NAMESPACE\n",
  },
  {
    when: "a cache has no id",
    text: "RUN --mount=type=cache,target=/root/.npm npm ci",
    becomes: "RUN --mount=type=cache,target=/root/.npm,id=p1-/root/.npm npm ci",
  },
  {
    when: "a cache has an id",
    text: "RUN --mount=target=/c,id=npm,type=cache npm ci",
    becomes: "RUN --mount=target=/c,type=cache,id=p1-npm npm ci",
  },
  {
    when: "a mount is no cache",
    text: "RUN --mount=type=tmpfs,target=/t x",
    becomes: "RUN --mount=type=tmpfs,target=/t x",
  },
  { when: "it names the usual syntax", text: "# syntax=docker/dockerfile:1.7\n# a\nRUN x", becomes: "# a\nRUN x" },
  {
    when: "FROM stands in a continued line",
    text: "RUN echo \\\n  FROM x",
    becomes: "RUN echo \\\n  FROM x",
  },
  {
    when: "FROM stands in a here-document",
    text: "COPY <<EOF /a\nFROM x\nEOF\nFROM y",
    becomes: "COPY <<EOF /a\nFROM x\nEOF\nFROM y\nARG SVC_CACHE_NAMESPACE",
  },
  { when: "it has Windows line ends", text: "FROM a\r\nRUN x", becomes: "FROM a\nARG SVC_CACHE_NAMESPACE\nRUN x" },
])("when $when", ({ text, becomes }) => {
  expect(rewrite(text)).toBe(becomes);
});

test.each([
  { when: "it names another parser", text: "#syntax=evil.test/x\nFROM a" },
  { when: "the parser hides behind another directive", text: "# escape=`\n# syntax=evil.test/x\nFROM a" },
  { when: "FROM spans lines", text: "FROM \\\n a" },
])("when $when it is refused", ({ text }) => {
  expect(rewrite(text)).toContain("refused");
});
