// node shot.mjs ASKED.json OUT.png [CHROMIUM]: serves dist/ and what is asked for, and takes the picture.
// ASKED.json: {dashboard, titles (of panels and rows; null: all), width, context: {prometheus, from, to, variables}}.
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { chromium } from 'playwright-core';

const [, , asked, out, browserPath = '/usr/bin/chromium'] = process.argv;
const dist = path.join(import.meta.dirname, 'dist');
const types = { '.js': 'text/javascript', '.html': 'text/html', '.css': 'text/css', '.json': 'application/json' };
const server = http.createServer((request, response) => {
  const { pathname } = new URL(request.url, 'http://localhost');
  const file = pathname === '/asked.json' ? asked : path.join(dist, pathname === '/' ? 'index.html' : pathname);
  if (!fs.existsSync(file) || fs.statSync(file).isDirectory()) {
    response.statusCode = 404;
    return response.end();
  }
  response.setHeader('content-type', types[path.extname(file)] ?? 'application/octet-stream');
  response.end(fs.readFileSync(file));
});
await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
const args = ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-sync'];
const browser = await chromium.launch({ executablePath: browserPath, args });
const { width } = JSON.parse(fs.readFileSync(asked));
// as tall as any dashboard: what is below the fold of a virtualised table stays blank
const page = await browser.newPage({ viewport: { width, height: 5000 } });
const said = [];
page.on('pageerror', (error) => said.push(String(error).slice(0, 400)));
await page.goto(`http://127.0.0.1:${server.address().port}/`);
const drawn = "[...document.querySelectorAll('[data-panel]')].every((one) => one.dataset.error || one.dataset.frames !== '-1')";
await page.waitForSelector('[data-panel]');
await page.waitForFunction(drawn, null, { timeout: 60000 }).catch((error) => said.push(String(error)));
await page.waitForTimeout(2000);
const failed = await page.$$eval('[data-panel]', (all) => all.filter((one) => one.dataset.error).map((one) => `${one.dataset.panel}: ${one.dataset.error}`));
const height = await page.evaluate('window.__height__');
await page.screenshot({ path: out, clip: { x: 0, y: 0, width, height } });
await browser.close();
server.close();
for (const line of [...new Set([...said, ...failed])]) {
  console.error(line);
}
process.exit(failed.length ? 1 : 0);
