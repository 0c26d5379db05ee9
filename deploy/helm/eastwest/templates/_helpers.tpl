{{/* The release's name, with the chart's in it. */}}
{{- define "eastwest.fullname" -}}
{{- $name := ternary .Release.Name (printf "%s-eastwest" .Release.Name) (contains "eastwest" .Release.Name) -}}
{{- $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* What pods are chosen by; never changed, since a DaemonSet's selector can't be. */}}
{{- define "eastwest.selector" -}}
app.kubernetes.io/name: eastwest
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "eastwest.labels" -}}
{{ include "eastwest.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "eastwest.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* eastwest.yml: what the user says, and the paths, which are the pod's. */}}
{{- define "eastwest.config" -}}
{{- $config := deepCopy (.Values.config | default dict) -}}
{{- $_ := set $config "paths" (dict "sysfs" "/host/sys" "state" "/var/lib/eastwest") -}}
{{- if .Values.web.secretName -}}
{{- $_ := set $config "web" (dict "config_file" "/etc/eastwest-web/web.yml") -}}
{{- end -}}
{{ toYaml $config }}
{{- end -}}

{{/*
The user's affinity, and that no label of the GPU operator says "paused". Terms are alternatives, so it is added to each;
NotIn holds for a node without the label too. The DaemonSet controller takes the pod away as soon as it no longer holds.
*/}}
{{- define "eastwest.affinity" -}}
{{- $affinity := deepCopy (.Values.affinity | default dict) -}}
{{- if and .Values.nvidia.enabled .Values.nvidia.eviction.enabled -}}
{{- $paused := list -}}
{{- range .Values.nvidia.eviction.labels -}}
{{- $paused = append $paused (dict "key" . "operator" "NotIn" "values" $.Values.nvidia.eviction.values) -}}
{{- end -}}
{{- $key := "requiredDuringSchedulingIgnoredDuringExecution" -}}
{{- $node := get $affinity "nodeAffinity" | default dict -}}
{{- $required := get $node $key | default dict -}}
{{- $terms := list -}}
{{- range $required.nodeSelectorTerms -}}
{{- if or .matchExpressions .matchFields -}}{{/* an empty term matches no node, and must go on doing so */}}
{{- $terms = append $terms (merge (dict "matchExpressions" (concat (.matchExpressions | default list) $paused)) .) -}}
{{- end -}}
{{- end -}}
{{- if not $required.nodeSelectorTerms -}}
{{- $terms = list (dict "matchExpressions" $paused) -}}
{{- end -}}
{{- $_ := set $node $key (dict "nodeSelectorTerms" $terms) -}}
{{- $_ := set $affinity "nodeAffinity" $node -}}
{{- end -}}
{{- with $affinity }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* The chart's own annotations of a pod. */}}
{{- define "eastwest.annotations" -}}
kubectl.kubernetes.io/default-container: eastwest
# Another configuration makes other pods.
checksum/config: {{ include "eastwest.config" . | sha256sum }}
{{- if and .Values.scrapeAnnotations (not .Values.podMonitor.enabled) }}
prometheus.io/scrape: "true"
prometheus.io/scheme: {{ .Values.web.scheme }}
prometheus.io/port: {{ .Values.web.port | quote }}
prometheus.io/path: /metrics
{{- end }}
{{- end -}}

{{/*
The chart's labels or annotations and those of a value, called as (list NAME OWN ADDED). A key of both would be there
twice, and which one counts is the parser's choice; nor may a value take a pod out of its own DaemonSet.
*/}}
{{- define "eastwest.with" -}}
{{- $own := fromYaml (index . 1) -}}
{{- range $key, $_ := index . 2 -}}
{{- if hasKey $own $key -}}{{- fail (printf "%s: %s is set by the chart itself" (index $ 0) $key) -}}{{- end -}}
{{- end -}}
{{- index . 1 -}}
{{- with index . 2 }}
{{ toYaml . }}
{{- end -}}
{{- end -}}

{{/* A duration of Prometheus, such as 1m30s, in milliseconds. */}}
{{- define "eastwest.milliseconds" -}}
{{- $factor := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9]+(ms|s|m|h)" . -1 -}}
{{- $sum = add $sum (mul (regexFind "^[0-9]+" . | int64) (get $factor (regexFind "[a-z]+" .))) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* What would do harm, or less than it seems to; some of it is in the schema too, which helm can be told to skip. */}}
{{- define "eastwest.refuse" -}}
{{- if and .Values.networkPolicy.enabled .Values.hostNetwork -}}
{{- fail "networkPolicy.enabled: no NetworkPolicy covers pods in the host's network; set hostNetwork to false, or use web.bind, web.secretName or the node's firewall" -}}
{{- end -}}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.from) -}}
{{- fail "networkPolicy.from: name who may ask, such as the namespace of Prometheus; an empty list would be everybody" -}}
{{- end -}}
{{- if and (eq .Values.web.scheme "https") (not .Values.web.secretName) -}}
{{- fail "web.scheme: https needs web.secretName, a secret with web.yml and its certificate" -}}
{{- end -}}
{{- if and .Values.nvidia.eviction.enabled (not .Values.nvidia.eviction.labels) -}}
{{- fail "nvidia.eviction.labels: none; set nvidia.eviction.enabled to false if that is meant" -}}
{{- end -}}
{{- if not (regexMatch "^(/\\.?[A-Za-z0-9_-][A-Za-z0-9._-]*)*/eastwest[A-Za-z0-9._-]*$" .Values.state.path) -}}
{{- fail "state.path: an absolute path without .. is needed, to a folder whose name begins with eastwest: it is given to user 10428" -}}
{{- end -}}
{{- if has .Values.state.path (list "/var/lib/eastwest" "/etc/eastwest" "/opt/eastwest" "/run/eastwest-textfile") -}}
{{- fail (printf "state.path: %s is the systemd service's, and another user's" .Values.state.path) -}}
{{- end -}}
{{- if not (has .Values.seccompProfile.type (list "RuntimeDefault" "Localhost")) -}}
{{- fail "seccompProfile.type: RuntimeDefault or Localhost is needed" -}}
{{- end -}}
{{- if ne (eq .Values.seccompProfile.type "Localhost") (not (not .Values.seccompProfile.localhostProfile)) -}}
{{- fail "seccompProfile.localhostProfile: needed with type Localhost, and with that alone" -}}
{{- end -}}
{{- $interval := include "eastwest.milliseconds" .Values.podMonitor.interval | int64 -}}
{{- $timeout := include "eastwest.milliseconds" .Values.podMonitor.scrapeTimeout | int64 -}}
{{- if not (and (gt $timeout 0) (le $timeout $interval)) -}}
{{- fail "podMonitor.scrapeTimeout: more than nothing and at most podMonitor.interval is needed" -}}
{{- end -}}
{{- $seen := dict "HOST_IP" 1 "NVIDIA_VISIBLE_DEVICES" 1 "NVIDIA_DRIVER_CAPABILITIES" 1 -}}
{{- range .Values.extraEnv -}}
{{- if hasKey $seen .name -}}{{- fail (printf "extraEnv: %s is set already" .name) -}}{{- end -}}
{{- $_ := set $seen .name 1 -}}
{{- end -}}
{{- end -}}
