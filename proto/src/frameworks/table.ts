import type { Facts } from "./facts.ts";
import type { Form, Framework } from "./form.ts";
import { asObject, parseObject } from "./package-json.ts";

/** SvelteKit compares a form's origin with the address that it thinks it has: https, unless told where to look. */
const svelteKitEnv = { PROTOCOL_HEADER: "x-forwarded-proto", HOST_HEADER: "x-forwarded-host" };

/** A project of a framework that makes a site in one of `outputs`, whatever else is in it. */
const siteIn = (...outputs: string[]): Form => ({ site: { outputs } });

const browserRouters = [
  "react-router",
  "react-router-dom",
  "vue-router",
  "@solidjs/router",
  "@tanstack/react-router",
  "@tanstack/solid-router",
  "@tanstack/vue-router",
  "preact-iso",
  "preact-router",
  "svelte-routing",
  "svelte-spa-router",
  "wouter",
  "@angular/router",
  "@generouted/react-router",
];

/** The same, where the browser may decide which page a path is. */
const appIn = (...outputs: string[]): Form => ({ site: { outputs, spa: browserRouters } });

const row = (
  name: string,
  packages: readonly string[],
  facts: Partial<Framework> & Pick<Framework, "forms">,
): Framework => ({
  name,
  packages,
  builds: ["build"],
  caches: [],
  env: {},
  ...facts,
});

/** How Remix and what came after it are told where to leave a build. */
const buildDirectory = /\bbuildDirectory\s*:\s*["'`]([\w./-]+)["'`]/;

/** A program that starts a server for development, unless its first word is one of these. */
const developsUnless = (program: string, ...commands: string[]): RegExp =>
  new RegExp(`^(?:${program})(?! +(?:${commands.join("|")})\\b)(?: |$)`);

const nitroServer = { start: "node .output/server/index.mjs" };
const nitroSite = { outputs: [".output/public", "dist"] };
/** A preset of Nitro that leaves files only. */
const staticPreset = /\bpreset\s*:\s*["'`](?:static|github-pages|[\w-]+-static)["'`]/;
/** A preset that is made for somebody else's platform. */
const foreignPreset =
  /\bpreset\s*:\s*["'`](?:vercel|netlify|cloudflare|aws|azure|firebase|deno|render|heroku|cleavr|stormkit|edgio|zeabur|alwaysdata|genezio|zerops|digital)[\w-]*["'`]/;
const nitroCure = "Take the preset out of the configuration: without one Nitro makes a Node server";

/**
 * Every framework that is known, by the packages that give it away. The first row that fits counts: many frameworks
 * are built on those further down.
 */
export const frameworks: readonly Framework[] = [
  row("Next.js", ["next"], {
    buildProgram: "next build",
    development: developsUnless("next", "build", "start", "export", "lint", "info", "telemetry", "typegen", "upgrade"),
    caches: [".next/cache"],
    // It listens on the address of this name only, and the engine sets it to the container's.
    env: { HOSTNAME: "0.0.0.0" },
    forms: [
      {
        when: { config: /\boutput["']?\s*:[^,;{}\n]{0,200}["'`]export["'`]/ },
        because: 'output: "export"',
        site: { outputs: ["out"] },
      },
      { site: { outputs: ["out"] }, server: { start: "next start" } },
    ],
  }),
  row("Nuxt", ["nuxt", "nuxt3", "nuxt-nightly"], {
    buildProgram: "nuxt build",
    development: developsUnless("nux[ti]", "build", "generate", "start", "preview", "prepare", "analyze", "typecheck"),
    servesFiles: /^nux[ti] +preview\b/,
    forms: [
      {
        when: { build: /^nux[ti] +generate\b/, config: /\bssr\s*:\s*false\b/ },
        because: "the build script is nuxt generate, with ssr: false",
        site: { ...nitroSite, spa: true },
      },
      { when: { build: /^nux[ti] +generate\b/ }, because: "the build script is nuxt generate", site: nitroSite },
      { when: { config: staticPreset }, because: "a static preset", site: nitroSite },
      { when: { config: foreignPreset }, cure: nitroCure },
      { site: { ...nitroSite, builds: ["generate", "build"] }, server: nitroServer },
    ],
  }),
  row("SolidStart", ["@solidjs/start"], {
    development: developsUnless("vinxi", "build", "start", "serve"),
    startsElsewhere: /^vinxi +start\b/,
    forms: [
      { when: { config: staticPreset }, because: "a static preset", site: nitroSite },
      { when: { config: foreignPreset }, cure: nitroCure },
      { site: nitroSite, server: nitroServer },
    ],
  }),
  row("TanStack Start", ["@tanstack/react-start", "@tanstack/solid-start", "@tanstack/vue-start"], {
    forms: [
      { when: { config: staticPreset }, because: "a static preset", site: nitroSite },
      {
        when: { has: ["nitro", "@tanstack/nitro-v2-vite-plugin"] },
        because: "Nitro",
        site: nitroSite,
        server: nitroServer,
      },
      {
        when: { config: /\bspa\s*:\s*\{[^}]{0,200}\benabled\s*:\s*true/ },
        because: "SPA mode",
        site: { outputs: ["dist/client"] },
      },
      {
        cure: 'Run `npm install nitro`, then in vite.config.ts `import { nitro } from "nitro/vite"` and add `nitro()` to the plugins: without it the build leaves no server that could be started',
      },
    ],
  }),
  row("SvelteKit", ["@sveltejs/kit"], {
    env: svelteKitEnv,
    forms: [
      {
        when: { uses: ["@sveltejs/adapter-node"] },
        because: "@sveltejs/adapter-node",
        site: { outputs: ["build"] },
        server: {
          start: "node build",
          built: {
            usual: "build",
            config: /^svelte\.config\.[jt]s$/,
            said: /\badapter\w{0,20}\s*\(\s*\{[^{}]{0,500}?\bout\s*:\s*["'`]([\w./-]+)["'`]/,
          },
        },
      },
      {
        when: { uses: ["@sveltejs/adapter-static"] },
        because: "@sveltejs/adapter-static",
        site: { outputs: ["build"] },
      },
      {
        when: {
          uses: [
            "@sveltejs/adapter-auto",
            "@sveltejs/adapter-vercel",
            "@sveltejs/adapter-netlify",
            "@sveltejs/adapter-cloudflare",
            "@sveltejs/adapter-cloudflare-workers",
          ],
        },
        cure: "Run `npx sv add sveltekit-adapter=adapter:node`, which sets @sveltejs/adapter-node up (`adapter:static` for a site)",
      },
      { site: { outputs: ["build"] }, server: { start: "node build" } },
    ],
  }),
  row("React Router", ["@react-router/dev"], {
    buildProgram: "react-router build",
    development: developsUnless("react-router", "build", "routes", "reveal", "typegen"),
    forms: [
      {
        when: { config: /\bssr\s*:\s*false\b/ },
        because: "ssr: false",
        site: { outputs: ["build/client"], spa: true },
      },
      {
        when: { has: ["@react-router/serve"] },
        because: "@react-router/serve",
        site: { outputs: ["build/client"] },
        server: {
          start: "react-router-serve ./build/server/index.js",
          built: { usual: "build", config: /^react-router\.config\.[jt]s$/, said: buildDirectory },
        },
      },
      {
        site: { outputs: ["build/client"] },
        cure: "Run `npm install @react-router/serve`, which starts what the build leaves, or write `ssr: false` into react-router.config.ts for a site",
      },
    ],
  }),
  row("Remix", ["@remix-run/dev"], {
    development: developsUnless("remix", "build", "vite:build", "routes", "reveal", "init", "setup"),
    forms: [
      {
        when: { config: /\bssr\s*:\s*false\b/ },
        because: "ssr: false",
        site: { outputs: ["build/client"], spa: true },
      },
      {
        when: { has: ["@remix-run/serve"] },
        because: "@remix-run/serve",
        site: { outputs: ["build/client", "public"] },
        server: {
          start: "remix-serve ./build/server/index.js",
          built: { usual: "build", config: /^vite\.config\.[cm]?[jt]s$/, said: buildDirectory },
        },
      },
      {
        site: { outputs: ["build/client", "public"] },
        cure: "Run `npm install @remix-run/serve`, which starts what the build leaves",
      },
    ],
  }),
  row("Astro", ["astro"], {
    buildProgram: "astro build",
    development: developsUnless("astro", "build", "preview", "check", "sync", "info", "add", "telemetry", "db"),
    servesFiles: /^astro +preview\b/,
    caches: ["node_modules/.astro"],
    outputSaid: [/\boutDir\s*:\s*["'`]\.?\/?([\w./-]+?)\/?["'`]/],
    forms: [
      {
        when: { uses: ["@astrojs/node"] },
        because: "@astrojs/node",
        site: { outputs: ["dist/client", "dist"] },
        server: {
          start: "node ./dist/server/entry.mjs",
          built: {
            usual: "dist",
            config: /^astro\.config\.[cm]?[jt]s$/,
            said: /\boutDir\s*:\s*["'`]([\w./-]+)["'`]/,
          },
        },
      },
      {
        when: { uses: ["@astrojs/vercel", "@astrojs/netlify", "@astrojs/cloudflare", "@astrojs/deno"] },
        site: { outputs: ["dist"] },
        cure: "Run `npx astro add node`, and take the adapter for another platform out",
      },
      { when: { config: /\boutput\s*:\s*["'`](?:server|hybrid)["'`]/ }, cure: "Run `npx astro add node`" },
      { because: "no server adapter", site: { outputs: ["dist"] }, cure: "Run `npx astro add node`" },
    ],
  }),
  row("Qwik City", ["@builder.io/qwik-city", "@qwik.dev/router"], {
    forms: [
      { when: { file: /^adapters\/static\// }, because: "adapters/static", site: { outputs: ["dist"] } },
      {
        when: { file: /^adapters\/express\// },
        because: "adapters/express",
        server: { start: "node server/entry.express.js" },
      },
      {
        when: { file: /^adapters\/fastify\// },
        because: "adapters/fastify",
        server: { start: "node server/entry.fastify.js" },
      },
      {
        when: { file: /^adapters\/node-server\// },
        because: "adapters/node-server",
        server: { start: "node server/entry.node-server.js" },
      },
      { cure: "Run `npm run qwik add express` for a server, or `npm run qwik add static` for a site" },
    ],
  }),
  row("Analog", ["@analogjs/platform"], {
    forms: [
      { when: { config: /\bstatic\s*:\s*true\b/ }, because: "static: true", site: { outputs: ["dist/analog/public"] } },
      {
        when: { config: /\bssr\s*:\s*false\b/ },
        because: "ssr: false",
        site: { outputs: ["dist/analog/public", "dist/client"] },
      },
      { site: { outputs: ["dist/analog/public"] }, server: { start: "node dist/analog/server/index.mjs" } },
    ],
  }),
  row("Waku", ["waku"], {
    buildProgram: "waku build",
    development: developsUnless("waku", "build", "start"),
    forms: [{ site: { outputs: ["dist/public"] }, server: { start: "node dist/serve-node.js" } }],
  }),
  row("Gatsby", ["gatsby"], {
    buildProgram: "gatsby build",
    development: /^gatsby(?: +develop\b.*)?$/,
    servesFiles: /^gatsby +serve\b/,
    caches: [".cache"],
    forms: [siteIn("public")],
  }),
  row("Docusaurus", ["@docusaurus/core"], {
    buildProgram: "docusaurus build",
    development: /^docusaurus(?: +start\b.*)?$/,
    servesFiles: /^docusaurus +serve\b/,
    outputSaid: [/^docusaurus build\b.* --out-dir[ =]([\w./-]+)/],
    forms: [siteIn("build")],
  }),
  row("VitePress", ["vitepress"], {
    builds: ["docs:build", "build"],
    buildProgram: "vitepress build",
    development: developsUnless("vitepress", "build", "preview", "serve", "init"),
    servesFiles: /^vitepress +(?:preview|serve)\b/,
    star: docsDirectory("vitepress"),
    forms: [siteIn("*/.vitepress/dist", ".vitepress/dist", "docs/.vitepress/dist")],
  }),
  row("VuePress", ["vuepress", "vuepress-vite", "@vuepress/cli"], {
    builds: ["docs:build", "build"],
    buildProgram: "vuepress build",
    development: developsUnless("vuepress(?:-vite)?", "build", "info"),
    star: docsDirectory("vuepress"),
    forms: [siteIn("*/.vuepress/dist", ".vuepress/dist", "docs/.vuepress/dist")],
  }),
  row("Rspress", ["rspress", "@rspress/core"], {
    buildProgram: "rspress build",
    development: developsUnless("rspress", "build", "preview"),
    servesFiles: /^rspress +preview\b/,
    forms: [siteIn("doc_build")],
  }),
  row("Eleventy", ["@11ty/eleventy"], {
    buildProgram: "eleventy",
    development: /^eleventy\b.* --(?:serve|watch)\b/,
    outputSaid: [
      /^(?:npx +)?(?:@11ty\/)?eleventy\b.* --output[ =]([\w./-]+)/,
      /\boutput\s*:\s*["'`]\.?\/?([\w./-]+?)\/?["'`]/,
    ],
    forms: [siteIn("_site")],
  }),
  row("Hexo", ["hexo"], {
    buildProgram: "hexo generate",
    development: /^hexo +(?:server|s)\b/,
    forms: [siteIn("public")],
  }),
  row("Slidev", ["@slidev/cli"], {
    buildProgram: "slidev build",
    development: developsUnless("slidev", "build", "export", "format", "theme"),
    outputSaid: [/^slidev build\b.* (?:--out|-o)[ =]([\w./-]+)/],
    forms: [siteIn("dist")],
  }),
  row("Create React App", ["react-scripts", "@craco/craco"], {
    buildProgram: "react-scripts build",
    development: /^(?:react-scripts|craco|react-app-rewired) +start\b/,
    forms: [appIn("build")],
  }),
  row("Vue CLI", ["@vue/cli-service"], {
    buildProgram: "vue-cli-service build",
    development: /^vue-cli-service +serve\b/,
    outputSaid: [/\boutputDir\s*:\s*["'`]\.?\/?([\w./-]+?)\/?["'`]/],
    forms: [appIn("dist")],
  }),
  row("Ember", ["ember-source", "ember-cli"], {
    development: /^ember +(?:serve|server|s)\b/,
    forms: [{ site: { outputs: ["dist"], spa: ["ember-source"] } }],
  }),
  row("Preact CLI", ["preact-cli"], {
    buildProgram: "preact build",
    development: /^preact +watch\b/,
    forms: [appIn("build")],
  }),
  row("Expo", ["expo"], {
    builds: ["build:web", "build"],
    buildProgram: "expo export --platform web",
    development: /^expo +start\b/,
    outputSaid: [/^expo export\b.* --output-dir[ =]([\w./-]+)/],
    forms: [
      { when: { has: ["react-native-web"] }, because: "react-native-web", site: { outputs: ["dist"], spa: true } },
      { cure: "Run `npx expo install react-dom react-native-web`: with these Expo builds for the web" },
    ],
  }),
  row("Quasar", ["@quasar/app-vite", "@quasar/app-webpack"], {
    buildProgram: "quasar build",
    development: /^quasar +dev\b/,
    forms: [
      {
        when: { build: /^quasar +build\b.*-m +ssr\b/ },
        because: "-m ssr",
        server: { start: "node dist/ssr/index.js" },
      },
      appIn("dist/spa", "dist/pwa"),
    ],
  }),
  row("NestJS", ["@nestjs/core"], {
    buildProgram: "nest build",
    development: /^nest +start\b/,
    forms: [{ server: { start: "node dist/main.js" } }],
  }),
  row("AdonisJS", ["@adonisjs/core"], {
    buildProgram: "node ace build",
    development: /^node +ace(?:\.js)? +serve\b/,
    // That is where the sources are; the build is a directory below.
    startsElsewhere: /^node +(?:\.\/)?bin\/server(?:\.js)?$/,
    env: { LOG_LEVEL: "info" },
    needs: ["APP_KEY"],
    forms: [{ server: { start: "node build/bin/server.js" } }],
  }),
  row("Strapi", ["@strapi/strapi"], {
    buildProgram: "strapi build",
    development: /^strapi +(?:develop|dev)\b/,
    needs: ["APP_KEYS", "API_TOKEN_SALT", "ADMIN_JWT_SECRET", "TRANSFER_TOKEN_SALT", "JWT_SECRET"],
    forms: [{ server: { start: "strapi start" } }],
  }),
  row("Angular", ["@angular/core"], {
    buildProgram: "ng build",
    development: /^ng +(?:serve|s|dev)\b/,
    caches: [".angular/cache"],
    // It answers hosts only that it was told; which ones reach it the edge decides.
    env: { NG_ALLOWED_HOSTS: "*" },
    star: angularProject,
    forms: [
      {
        when: { has: ["@angular/ssr"], config: /"outputMode"\s*:\s*"static"/ },
        because: "outputMode static",
        site: { outputs: ["dist/*/browser", "dist/browser", "dist"] },
      },
      {
        when: { has: ["@angular/ssr"] },
        because: "@angular/ssr",
        site: { outputs: ["dist/*/browser", "dist/browser", "dist"] },
        server: { start: "node dist/*/server/server.mjs" },
      },
      {
        because: "no @angular/ssr",
        ...appIn("dist/*/browser", "dist/browser", "dist"),
        cure: "Run `npx ng add @angular/ssr`",
      },
    ],
  }),
  row("Nitro", ["nitropack", "nitro"], {
    buildProgram: "nitro build",
    development: /^nitro(?:pack)? +(?:dev|preview)\b/,
    forms: [
      { when: { config: staticPreset }, because: "a static preset", site: nitroSite },
      { when: { config: foreignPreset }, cure: nitroCure },
      { site: nitroSite, server: nitroServer },
    ],
  }),
  row("Rsbuild", ["@rsbuild/core"], {
    buildProgram: "rsbuild build",
    development: developsUnless("rsbuild", "build", "preview", "inspect"),
    servesFiles: /^rsbuild +preview\b/,
    forms: [appIn("dist")],
  }),
  row("Rspack", ["@rspack/cli"], {
    buildProgram: "rspack build",
    servesFiles: /^rspack +preview\b/,
    forms: [appIn("dist")],
  }),
  row("Parcel", ["parcel", "parcel-bundler"], {
    development: developsUnless("parcel", "build"),
    outputSaid: [/^parcel build\b.* (?:--dist-dir|-d)[ =]([\w./-]+)/],
    forms: [appIn("dist")],
  }),
  row("Vite", ["vite", "rolldown-vite"], {
    buildProgram: "vite build",
    development: developsUnless("vite", "build", "preview", "optimize"),
    servesFiles: /^vite +preview\b/,
    outputSaid: [/\bvite build\b.{0,200} --outDir[ =]([\w./-]+)/, /\boutDir\s*:\s*["'`]\.?\/?([\w./-]+?)\/?["'`]/],
    forms: [
      {
        when: { config: /\blib\s*:\s*\{/ },
        cure: "Take build.lib out of the configuration: with it Vite makes a library",
      },
      { when: { file: /(?:^|\/)index\.html$/ }, ...appIn("dist") },
      { when: { config: /\binput\b/ }, ...appIn("dist") },
      { cure: "Add an index.html, which Vite makes a site from, or a start script (`node server.js`) for a server" },
    ],
  }),
  row("Storybook", ["storybook"], {
    builds: ["build-storybook", "build"],
    development: /^(?:storybook +dev|start-storybook)\b/,
    forms: [siteIn("storybook-static")],
  }),
  row("fastify-cli", ["fastify-cli"], {
    builds: ["build", "build:ts"],
    // Without an address it listens to its own machine only.
    development: /^fastify +start\b.* (?:-w|--watch)\b/,
    env: { FASTIFY_ADDRESS: "0.0.0.0" },
    forms: [
      { when: { build: /\btsc\b|\bbuild\b/ }, server: { start: "fastify start -l info dist/app.js" } },
      { server: { start: "fastify start -l info app.js" } },
    ],
  }),
  row("Elysia", ["elysia"], {
    forms: [
      { when: { file: /^bun\.lockb?$/ }, because: "bun.lock", server: { start: "bun src/index.ts" } },
      { cure: "Run `bun install` and keep its bun.lock: with that file the image has Bun, which Elysia runs on" },
    ],
  }),
  row("Cloudflare Workers", ["wrangler"], {
    forms: [
      {
        cure: "Run `npm install @hono/node-server` (or another Node server), call its `serve()`, and write a start script for that",
      },
    ],
  }),
];

/** Servers of which nothing needs to be known but that they are some. */
export const serverPackages: ReadonlyMap<string, string> = new Map([
  ["express", "Express"],
  ["fastify", "Fastify"],
  ["koa", "Koa"],
  ["hono", "Hono"],
  ["@hono/node-server", "Hono"],
  ["h3", "h3"],
  ["@hapi/hapi", "hapi"],
  ["@feathersjs/feathers", "Feathers"],
  ["restify", "Restify"],
  ["polka", "Polka"],
  ["@trpc/server", "tRPC"],
  ["socket.io", "Socket.IO"],
  ["ws", "ws"],
]);

/** Where `vitepress build docs` and its like look for documents: what the script names, else where the settings are. */
function docsDirectory(program: string): NonNullable<Framework["star"]> {
  return ({ files }, buildScript) => {
    const [, named] = new RegExp(`\\b${program}(?:-vite)? +build +([\\w./-]+)`).exec(buildScript) ?? [];
    if (named !== undefined) return named === "." ? "" : named.replace(/^\.\//, "").replace(/\/+$/, "");
    const marks = [...files].map((path) => new RegExp(`^(?:(.*)/)?\\.${program}/config\\.`).exec(path));
    const found = marks.find((each) => each !== null);
    return found === undefined ? null : (found?.[1] ?? "");
  };
}

/** The name of the one project of an Angular workspace, below whose name the build leaves it. */
function angularProject({ texts }: Facts): string | null {
  const workspace = parseObject(texts.get("angular.json") ?? "");
  const projects = Object.entries(asObject(workspace?.["projects"]) ?? {});
  const apps = projects.filter(([, project]) => asObject(project)?.["projectType"] !== "library");
  return apps.length === 1 ? (apps[0]?.[0] ?? null) : null;
}
