// Controlplane is etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler in one file. Which of them it is, says the name it is started
// under; under any other name the first argument says it. The flags are those
// of the originals.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // time zones of CronJobs

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// programs holds what each name starts; none of them returns before its end.
var programs = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          func() { run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() { run(controllers.NewControllerManagerCommand()) },
	"kube-scheduler":          func() { run(scheduler.NewSchedulerCommand()) },
}

func run(command *cobra.Command) {
	os.Exit(cli.Run(command))
}

func main() {
	if program, known := programs[filepath.Base(os.Args[0])]; known {
		program()
		return
	}
	if len(os.Args) > 1 {
		if program, known := programs[os.Args[1]]; known {
			os.Args = os.Args[1:]
			program()
			return
		}
	}
	fmt.Fprintf(os.Stderr, "usage: %s etcd|kube-apiserver|kube-controller-manager|kube-scheduler [flags]\n", os.Args[0])
	os.Exit(2)
}
