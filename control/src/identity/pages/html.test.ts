import { expect, test } from "vitest";
import { html } from "./html.ts";

test("text is escaped, in content and in attributes", () => {
  const name = `<img src=x onerror="alert('&')">`;
  expect(html`<p title="${name}">${name}</p>`.text).toBe(
    '<p title="&lt;img src=x onerror=&quot;alert(&#39;&amp;&#39;)&quot;&gt;">&lt;img src=x onerror=&quot;alert(&#39;&amp;&#39;)&quot;&gt;</p>',
  );
});

test("HTML inside HTML stays, lists are joined, nothing is nothing", () => {
  expect(html`<ul>${["a<", "b"].map((item) => html`<li>${item}</li>`)}${null}${false}${0}</ul>`.text).toBe(
    "<ul><li>a&lt;</li><li>b</li>0</ul>",
  );
});
