import type { Answer, TestApi } from "../../http/testing.ts";

export interface Opened extends Answer {
  /** Where the page was found in the end. */
  path: string;
  /** The address elsewhere that it sends the browser to; null for a page of ours. */
  leadsAway: string | null;
}

/** A browser without JavaScript: keeps cookies, sends forms with an Origin, and follows redirects to pages of ours. */
export function browser(api: TestApi) {
  const jar = new Map<string, string>();
  const keep = ({ headers }: Answer) => {
    for (const cookie of headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(cookie) ?? [];
      if (value === "" || /max-age=0/i.test(cookie)) jar.delete(name);
      else jar.set(name, value);
    }
  };
  const cookie = () => [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
  async function go(method: string, path: string, body?: string): Promise<Opened> {
    const headers = {
      accept: "text/html",
      ...(body !== undefined && { origin: api.url, "content-type": "application/x-www-form-urlencoded" }),
    };
    const answer = await api.request(method, path, {
      ...(jar.size > 0 && { cookie: cookie() }),
      ...(body !== undefined && { body }),
      headers,
    });
    keep(answer);
    const location = answer.headers.get("location");
    if (![302, 303].includes(answer.status) || location === null) return { ...answer, path, leadsAway: null };
    const target = new URL(location, api.url);
    if (target.origin !== api.url) return { ...answer, path, leadsAway: location };
    return go("GET", target.pathname + target.search);
  }
  return {
    cookie,
    /** Sets a cookie as somebody else might have before. */
    plant: (name: string, value: string) => void jar.set(name, value),
    open: (path: string) => go("GET", path),
    /** Sends the form of `page` that posts, to `action` if there are several, with what it holds and what is typed. */
    submit(page: Answer, typed: Record<string, string>, action?: string) {
      const form = [
        ...page.text.matchAll(/<form[^>]*method="post"[^>]*action="([^"]+)"[^>]*>([\s\S]*?)<\/form>/g),
      ].find(([, to]) => (action === undefined ? to !== "/sign-out" || "sign-out" in typed : to === action));
      if (form === undefined) throw new Error(`the page has no form ${action ?? ""}:\n${page.text}`);
      const [, to = "", inner = ""] = form;
      const held = [...inner.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)">/g)].map(
        ([, name = "", value = ""]) => [name, value.replaceAll("&amp;", "&")],
      );
      return go("POST", to, new URLSearchParams([...held, ...Object.entries(typed)] as [string, string][]).toString());
    },
  };
}

/** The newest mail to `email`, once there are at least `count` of them: mails go out after the answer. */
export async function mailTo(api: TestApi, email: string, count = 1) {
  for (const until = Date.now() + 20_000; ; ) {
    const mails = (await api.mails()).filter(({ to }) => to === email);
    const newest = mails.at(-1);
    if (newest !== undefined && mails.length >= count) return newest;
    if (Date.now() > until) throw new Error(`${mails.length} mails to ${email}, not ${count}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** The link in a mail. */
export const linkIn = ({ text }: { text: string }): URL => new URL(/http\S+/.exec(text)?.[0] ?? "");
