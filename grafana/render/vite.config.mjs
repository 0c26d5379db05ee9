import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

export default defineConfig({
  plugins: [react()],
  define: { 'process.env.NODE_ENV': '"production"', global: 'globalThis', 'process.env': '{}' },
  build: { chunkSizeWarningLimit: 20000, sourcemap: false, minify: 'esbuild', target: 'es2022' },
});
